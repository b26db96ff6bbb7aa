# Copyright Spack Project Developers. See COPYRIGHT file for details.
#
# SPDX-License-Identifier: (Apache-2.0 OR MIT)

from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Terp(CMakePackage, CudaPackage):
    """Error-bounded compression of floating-point data: an HDF5 filter plugin, a
    command line tool, a C library and a Python package. No value changes by more
    than the bound that the user chooses."""

    homepage = "https://example.org/terp"
    url = "https://example.org/terp/releases/terp-2.0.0.tar.gz"

    license("BSD-3-Clause AND BSD-2-Clause", checked_by="terp")

    version("2.0.0", sha256="0000000000000000000000000000000000000000000000000000000000000000")

    variant("mpi", default=True, description="Link the tool to an HDF5 with MPI")
    variant("python", default=False, description="Install the Python package h5z_terp")
    variant("tools", default=True, description="Build the command line tool terp")

    depends_on("c", type="build")
    depends_on("cxx", type="build", when="+cuda")
    depends_on("cmake@3.22:", type="build")
    depends_on("pkgconfig", type="build", when="+tools")

    # The header alone; the source has a copy for systems without it.
    depends_on("xxhash@0.8:", type="build")
    depends_on("hdf5@1.10:")
    depends_on("hdf5+mpi", when="+mpi")
    depends_on("hdf5~mpi", when="~mpi")
    depends_on("mpi", when="+mpi")
    depends_on("jansson@2.10:", when="+tools")

    with when("+python"):
        extends("python")
        depends_on("python@3.9:", type=("build", "run"))
        depends_on("py-pip", type="build")
        depends_on("py-scikit-build-core@0.11:", type="build")
        depends_on("py-numpy@1.21:", type=("build", "run"))
        depends_on("py-h5py@3.7:", type=("build", "run"))

    conflicts("^cuda@:11.7", when="+cuda", msg="CUDA 11.8 is the first for the H100")

    def cmake_args(self):
        args = [
            self.define("BUILD_TESTING", self.run_tests),
            self.define("CMAKE_INSTALL_LIBDIR", "lib"),
            self.define("TERP_INSTALL_PLUGIN_DIR", "lib/hdf5/plugin"),
            self.define("TERP_SYSTEM_XXHASH", True),
            self.define("TERP_PNG", False),
            self.define_from_variant("HDF5_PREFER_PARALLEL", "mpi"),
            self.define_from_variant("TERP_CUDA", "cuda"),
            self.define_from_variant("TERP_JSON", "tools"),
            self.define_from_variant("TERP_TOOL", "tools"),
        ]
        if self.spec.satisfies("+cuda"):
            if self.spec.satisfies("cuda_arch=none"):
                args.append(self.define("TERP_CUDA_PORTABLE", True))
            else:
                args.append(
                    self.define("CMAKE_CUDA_ARCHITECTURES", self.spec.variants["cuda_arch"].value)
                )
        return args

    @run_after("install")
    def install_python(self):
        """Builds the package with its own libraries, like the wheel of PyPI."""
        if self.spec.satisfies("~python"):
            return
        tool = self.prefix.bin.terp
        kept = join_path(self.stage.path, "terp")
        if self.spec.satisfies("+tools"):
            install(tool, kept)
        with working_dir(self.stage.source_path):
            python(
                "-m",
                "pip",
                "install",
                "--no-deps",
                "--no-index",
                "--no-build-isolation",
                "--ignore-installed",
                f"--prefix={self.prefix}",
                ".",
            )
        # pip writes a script of the same name, which runs h5py's HDF5.
        if self.spec.satisfies("+tools"):
            install(kept, tool)

    def setup_run_environment(self, env):
        env.prepend_path("HDF5_PLUGIN_PATH", self.prefix.lib.hdf5.plugin)

    def test_plugin(self):
        """h5repack writes and reads through the plugin"""
        if self.spec.satisfies("~tools"):
            raise SkipTest("terp was built without the tool that shows the bound")
        tools = self.spec["hdf5"].prefix.bin
        h5import = which(tools.h5import, required=True)
        h5repack = which(tools.h5repack, required=True)
        terp = which(self.prefix.bin.terp, required=True)
        with open("values.txt", "w") as values:
            values.write(" ".join(str(i / 7) for i in range(4096)))
        h5import("values.txt", "-d", "4096", "-p", "x", "-t", "TEXTFP", "-s", "32", "-o", "in.h5")
        h5repack("-l", "x:CHUNK=1024", "-f", "UD=46117,0,3,2,1,3", "in.h5", "out.h5")
        assert "relative bound 0.001" in terp("info", "out.h5", output=str.split)
        h5repack("-f", "NONE", "out.h5", "plain.h5")
