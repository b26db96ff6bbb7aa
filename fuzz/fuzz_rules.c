/* Any text is safe as rules of the connector. Rules have the same meaning in
 * the environment variable and in a file. The parser gives a reason for every
 * invalid rule. */
#define _GNU_SOURCE /* for memfd_create */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/target.h"
#include "vol/rules.h"

static enum vol_rule
find(const char *rules, const char *path, struct vol_choice *choice)
{
    char reason[VOL_REASON_NBYTES] = "";

    memset(choice, 0, sizeof *choice);
    const enum vol_rule found = vol_rules_find(rules, path, choice, reason);
    CHECK(memchr(reason, '\0', sizeof reason) != NULL);
    CHECK((found == VOL_RULE_WRONG) == (reason[0] != '\0'));
    if (found == VOL_RULE_APPLY) {
        unsigned words[H5Z_TERP_MAX_NWORDS];
        CHECK(isfinite(choice->config.bound) && choice->config.bound >= 0);
        CHECK(H5Z_terp_cd_values(&choice->config, words) > 0);
    }
    return found;
}

/* Reads the same rules from a file whose name is @/proc/self/fd/N. */
static enum vol_rule
find_in_file(const char *rules, const char *path, struct vol_choice *choice)
{
    char name[64];
    const int fd = memfd_create("rules", 0);
    const size_t nbytes = strlen(rules);

    CHECK(fd >= 0 && write(fd, rules, nbytes) == (ssize_t)nbytes);
    snprintf(name, sizeof name, "@/proc/self/fd/%d", fd);
    const enum vol_rule found = find(name, path, choice);
    close(fd);
    return found;
}

/* The input: the dataset's path, a line end, and the rules. The text ends at
 * the first 0. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct vol_choice choice, other;
    char *text = malloc(nbytes + 2);

    CHECK(text != NULL);
    memcpy(text, data, nbytes);
    text[nbytes] = '\0';
    text[nbytes + 1] = '\0';
    char *rules = strchr(text, '\n');
    rules = rules == NULL ? text : rules + 1;
    if (rules > text)
        rules[-1] = '\0';
    const char *path = rules > text ? text : NULL;
    /* Rules that begin with @ would name a file of this machine. */
    if (rules[0] != '@') {
        const enum vol_rule found = find(rules, path, &choice);
        /* Reading a file takes longer, so only one of eight inputs does it. */
        const bool is_filed = (nbytes > 0 ? data[nbytes / 2] : 0) % 8 == 0;
        const enum vol_rule in_file =
            is_filed ? find_in_file(rules, path, &other) : found;
        if (is_filed && strpbrk(rules, "#\n") == NULL && strlen(rules) > 0) {
            CHECK(found == in_file);
            CHECK(
                found != VOL_RULE_APPLY ||
                (choice.config.bound_mode == other.config.bound_mode &&
                 choice.config.bound == other.config.bound &&
                 choice.config.floor == other.config.floor &&
                 choice.has_small == other.has_small &&
                 choice.replaces_filters == other.replaces_filters &&
                 choice.replaces_chunks == other.replaces_chunks &&
                 choice.rank == other.rank &&
                 memcmp(choice.chunk, other.chunk, sizeof choice.chunk) == 0));
        }
    }
    free(text);
    return 0;
}
