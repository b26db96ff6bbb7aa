/* Compares the decoder of decoder/terp_decode.c with the codec, on golden
 * streams and on damaged ones: both must give the same values, or both refuse
 * the stream. Arguments: the number of damaged streams, then the folders of
 * golden streams. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codebooks/codebooks.h"
#include "codec/format/frame.h"
#include "h5tests/format/inside.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/golden.h"
#include "h5tests/support/reader.h"

static char **folders;
static unsigned long ndamaged;
static struct terp_golden golden[TERP_MAX_NGOLDEN];
static size_t ngolden;

static int
read_golden(void **state)
{
    (void)state;
    for (char **folder = folders; *folder != NULL; folder++)
        terp_golden_read(*folder, golden, &ngolden);
    return ngolden == 0;
}

static int
forget_golden(void **state)
{
    (void)state;
    terp_golden_forget(golden, &ngolden);
    return 0;
}

static void
golden_streams_decode_to_the_same_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < ngolden; i++) {
        bool decoded;
        assert_true(reader_agrees(golden[i].stream.bytes,
                                  golden[i].stream.nbytes, UINT64_MAX, true,
                                  &decoded) &&
                    decoded);
    }
}

/* Changes a byte or a bit, copies a byte, or cuts the stream. `is_early`: near
 * the beginning, where most fields are. */
static void
damage(struct terp_stream *stream, uint64_t random, bool is_early)
{
    const uint64_t n = is_early && stream->nbytes > 128 ? 128 : stream->nbytes;
    const uint64_t at = 5 + random % (n - 5);
    const uint64_t other = 5 + (random >> 20) % (n - 5);
    uint8_t *byte = stream->bytes + at;

    switch (random >> 60) {
    case 0:
        stream->nbytes = at < TERP_FRAME_DIMS_AT ? stream->nbytes : at;
        break;
    case 1:
        *byte = stream->bytes[other];
        break;
    case 2:
        *byte = (uint8_t)(random >> 40);
        break;
    case 3:
        *byte = (random >> 40) % 2 == 0 ? 0 : 255;
        break;
    case 4:
        (*byte)++;
        break;
    case 5:
        (*byte)--;
        break;
    default:
        *byte ^= (uint8_t)(1u << (random >> 40) % 8);
    }
}

static void
damaged_streams_are_refused_or_decode_to_the_same_values(void **state)
{
    unsigned long nrefused = 0;

    (void)state;
    for (unsigned long i = 0; i < ndamaged; i++) {
        const uint64_t random = terp_field_mix(i);
        const struct terp_stream *from = &golden[random % ngolden].stream;
        struct terp_stream stream = {terp_case_alloc(from->nbytes),
                                     from->nbytes};
        bool decoded;
        memcpy(stream.bytes, from->bytes, from->nbytes);
        damage(&stream, terp_field_mix(random), random >> 33 & 1);
        if (random >> 32 & 1)
            damage(&stream, terp_field_mix(random + 1), random >> 33 & 1);
        terp_frame_seal(stream.bytes, stream.nbytes);
        if (!reader_agrees(stream.bytes, stream.nbytes, 1u << 15, false,
                           &decoded))
            fail_msg("damaged stream %lu", i);
        nrefused += !decoded;
        free(stream.bytes);
    }
    assert_true(nrefused > ndamaged / 4 && nrefused < ndamaged);
}

static void
entries_of_the_dictionary_have_the_codecs_words(void **state)
{
    uint8_t nbits[TERP_NSYMBOLS] = {0};

    (void)state;
    for (int e = 0; e < TERP_NENTRIES; e++) {
        reader_word_nbits(e, false, nbits);
        for (int s = 0; s < TERP_NSYMBOLS; s++)
            assert_int_equal(nbits[s], terp_entry_code_nbits[s][e]);
        reader_word_nbits(e, true, nbits);
        for (int t = 0; t < TERP_NTOKENS; t++)
            assert_int_equal(nbits[t], terp_entry_token_nbits[t][e]);
    }
}

/* All lengths for which the hash has another formula, and several pieces. */
static void
checksums_of_any_length_are_the_codecs(void **state)
{
    static const size_t lengths[] = {1000, 1024, 1025, 32767, 32768, 100000};
    static uint8_t stream[TERP_FRAME_DIMS_AT + 100000];

    (void)state;
    for (size_t i = 0; i < sizeof stream; i++)
        stream[i] = (uint8_t)terp_field_mix(i);
    for (size_t i = 1; i <= 600 + sizeof lengths / sizeof *lengths; i++) {
        const size_t n = i <= 600 ? i : lengths[i - 601];
        terp_frame_seal(stream, TERP_FRAME_DIMS_AT + n);
        assert_int_equal(
            reader_checksum(stream + TERP_FRAME_DIMS_AT, n, load_le(stream, 8)),
            load_le(stream + TERP_FRAME_CHECKSUM_AT, 8));
    }
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_of_the_dictionary_have_the_codecs_words),
        cmocka_unit_test(checksums_of_any_length_are_the_codecs),
        cmocka_unit_test(golden_streams_decode_to_the_same_values),
        cmocka_unit_test(
            damaged_streams_are_refused_or_decode_to_the_same_values),
    };

    if (argc < 3)
        return EXIT_FAILURE;
    ndamaged = strtoul(argv[1], NULL, 10);
    folders = argv + 2;
#ifdef TERP_FEWER_CASES
    ndamaged /= TERP_FEWER_CASES;
#endif
    return cmocka_run_group_tests(tests, read_golden, forget_golden);
}
