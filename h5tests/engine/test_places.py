"""From which folders the codec opens the CUDA engine, and from which it does
not.

TEST_PROGRAM is load_engine, TEST_DEEP_PROGRAM the same for an installation
with a deeper folder, TEST_FAKE_CUDA an engine."""
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

PROGRAM = os.environ["TEST_PROGRAM"]
DEEP_PROGRAM = os.environ["TEST_DEEP_PROGRAM"]
FAKE = os.environ["TEST_FAKE_CUDA"]


class Places(unittest.TestCase):
    def setUp(self):
        # Only the owner may write to it, as to a folder that mkdtemp makes.
        self.folder = Path(tempfile.mkdtemp()).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        self.environment = {name: value for name, value in os.environ.items()
                            if name not in ("TERP_CUDA_LIBRARY",
                                            "LD_LIBRARY_PATH")}

    def make(self, program, engine, original=PROGRAM):
        """Copies of program and engine, below the test's folder."""
        for source, at in ((original, program), (FAKE, engine)):
            to = self.folder / at
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, to)
        return self.folder / program

    def said(self, program, *arguments, **options):
        options = {"env": self.environment, **options}
        return subprocess.run([program, *arguments], check=True, text=True,
                              stdout=subprocess.PIPE, **options).stdout.strip()

    def test_engine_near_the_program_is_opened(self):
        for engine in ("bin/libterp_cuda.so", "lib/libterp_cuda.so"):
            with self.subTest(engine):
                program = self.make("bin/load_engine", engine)
                self.assertEqual(self.said(program), "cuda: fake 0")
                shutil.rmtree(self.folder / "lib", ignore_errors=True)

    def test_name_that_the_caller_chooses_is_no_place(self):
        self.make("bin/other", "stage/libterp_cuda.so")
        for name in (self.folder / "stage" / "program", "./program"):
            with self.subTest(name):
                said = self.said(name, executable=self.folder / "bin" / "other",
                                 cwd=self.folder / "stage")
                self.assertTrue(said.startswith("cpu: "), said)

    def test_program_by_a_relative_path_has_its_own_folder(self):
        self.make("bin/load_engine", "bin/libterp_cuda.so")
        shutil.copytree(self.folder / "bin", self.folder / "other" / "bin")
        (self.folder / "other" / "bin" / "libterp_cuda.so").write_text("no")
        self.assertEqual(self.said("bin/load_engine", self.folder / "other",
                                   cwd=self.folder), "cuda: fake 0")

    def test_folder_of_everybody_is_no_place(self):
        program = self.make("x/bin/load_engine", "libterp_cuda.so")
        self.assertEqual(self.said(program), "cuda: fake 0")
        self.folder.chmod(0o1777)
        said = self.said(program)
        self.assertIn("others may write", said)
        self.assertTrue(said.startswith("cpu: "), said)

    def test_folder_of_the_installation_is_held_to_the_same(self):
        program = self.make("x/y/z/program", "libterp_cuda.so", DEEP_PROGRAM)
        self.assertEqual(self.said(program), "cuda: fake 0")
        self.folder.chmod(0o1777)
        self.assertIn("others may write", self.said(program))

    def test_file_of_everybody_is_not_opened(self):
        program = self.make("bin/load_engine", "bin/libterp_cuda.so")
        (self.folder / "bin" / "libterp_cuda.so").chmod(0o777)
        said = self.said(program)
        self.assertIn("others may write", said)

    @unittest.skipUnless(os.geteuid() == 0, "needs to give files away")
    def test_file_of_another_user_is_not_opened(self):
        program = self.make("bin/load_engine", "bin/libterp_cuda.so")
        os.chown(self.folder / "bin" / "libterp_cuda.so", 65534, -1)
        self.assertIn("others may write", self.said(program))

    def test_program_with_more_rights_opens_nothing_near_it(self):
        program = self.make("bin/load_engine", "bin/libterp_cuda.so")
        if os.geteuid() == 0:
            for path in (self.folder, program.parent, program,
                         program.parent / "libterp_cuda.so"):
                os.chown(path, 65534, -1)
            program.chmod(0o4755)
        else:
            others = [g for g in os.getgroups() if g != os.getegid()]
            if not others:
                self.skipTest("no other user or group to run as")
            os.chown(program, -1, others[0])
            program.chmod(0o2755)
        secure = subprocess.run([program], env={"LD_SHOW_AUXV": "1"},
                                stdout=subprocess.PIPE, text=True).stdout
        if "AT_SECURE" in secure:
            self.skipTest("this folder gives programs no rights")
        for more in ({}, {"TERP_CUDA_LIBRARY": FAKE}):
            with self.subTest(more):
                said = self.said(program, env={**self.environment, **more})
                self.assertTrue(said.startswith("cpu: "), said)


if __name__ == "__main__":
    unittest.main()
