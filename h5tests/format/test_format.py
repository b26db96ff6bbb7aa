"""doc/format.md says what the codec does: h5tests/format/format_decoder.py, written from it,
decodes the codec's streams to the same bits. TEST_PAIRS names make_pairs,
TEST_FREQUENCIES the dictionary's file. Needs numpy."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import format_decoder
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)


class FormatTest(unittest.TestCase):
    def setUp(self):
        self.frequencies = format_decoder.read_frequencies(
            os.environ["TEST_FREQUENCIES"])

    def test_dictionary_is_as_described(self):
        self.assertEqual(len(self.frequencies), 75)
        for entry in self.frequencies:
            self.assertEqual(entry[0] + 2 * sum(entry[1:512]) + entry[512],
                             1 << 24)

    def test_streams_decode_to_the_codecs_bits(self):
        kinds = set()
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([os.environ["TEST_PAIRS"], folder], check=True)
            for path in pathlib.Path(folder).glob("*.terp"):
                stream = path.read_bytes()
                values = path.with_suffix(".values").read_bytes()
                with self.subTest(path.name):
                    self.assertTrue(
                        format_decoder.decode(stream, self.frequencies)
                        == values)
                kinds.add((stream[6], stream[7] & 0xF))
        coded = {(coding, prediction) for coding in (2, 3, 4, 5)
                 for prediction in (1, 2)}
        self.assertEqual(kinds, {(0, 0), (1, 0)} | coded)


if __name__ == "__main__":
    unittest.main()
