/* terp repack: runs a process for each of many files, so that a file that ends
 * its process does not end the others. */
#define _GNU_SOURCE /* strsignal, MAP_ANONYMOUS */
#include "tools/repack/many.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifndef _WIN32
#include <sys/mman.h>
#include <sys/wait.h>
#endif

#include "codec/format/base.h"
#include "tools/common/progress.h"
#include "tools/common/text.h"
#include "tools/common/tool.h"

/* Time between two drawings of the progress bar, in nanoseconds. */
#define REDRAW_NS 100000000L

const char *
repack_state_name(enum repack_state state)
{
    static const char *const names[REPACK_NSTATES] = {
        [REPACK_STOPPED] = "stopped",
        [REPACK_COPIED] = "copied",
        [REPACK_DONE] = "done",
        [REPACK_UNCHANGED] = "unchanged",
        [REPACK_FAILED] = "failed"};

    return names[state];
}

/* ---- one file ---- */

/* What a process does with its file. */
typedef void
use_file(const struct repack_request *request,
         struct repack_outcome *outcome_ret);

/* One pass over the files. */
struct pass {
    struct repack_many *many;
    use_file *use;
    bool prints; /* prints messages */
    /* Whether the other files need not be used; NULL: no. */
    bool (*is_enough)(const struct repack_request *request);
};

/* The request for one file. */
static struct repack_request
request_of(const struct repack_many *many, size_t number)
{
    struct repack_request request = *many->request;

    request.path_in = many->files.at[number].in;
    request.path_out = many->files.at[number].out;
    request.nthreads /= request.njobs;
    if (request.nthreads == 0)
        request.nthreads = 1;
    return request;
}

static void
fail(struct repack_outcome *outcome, const char *object, const char *reason)
{
    outcome->state = REPACK_FAILED;
    snprintf(outcome->object, sizeof outcome->object, "%s", object);
    snprintf(outcome->reason, sizeof outcome->reason, "%s", reason);
}

static void
print_failure(const char *begin, const struct repack_file *file,
              const struct repack_outcome *outcome)
{
    fprintf(stderr, "%s: %s: ", begin, tool_shown(file->in));
    if (strcmp(outcome->object, file->in) != 0)
        fprintf(stderr, "%s: ", tool_shown(outcome->object));
    fprintf(stderr, "%s\n", tool_shown(outcome->reason));
}

/* Reports a file that has its outcome. */
static void
print_messages(const struct pass *pass, size_t number)
{
    const struct repack_file *file = &pass->many->files.at[number];
    const struct repack_outcome *outcome = &pass->many->outcomes[number];

    if (!pass->prints)
        return;
    if (outcome->state == REPACK_FAILED)
        print_failure("terp repack", file, outcome);
    else if (!pass->many->request->verbose)
        return;
    else if (outcome->state == REPACK_DONE)
        fprintf(stderr, "%s: already done\n", tool_shown(file->in));
    else if (outcome->state == REPACK_UNCHANGED)
        fprintf(stderr, "%s: unchanged: it holds nothing to compress\n",
                tool_shown(file->in));
}

static bool
is_enough(const struct pass *pass)
{
    return pass->is_enough != NULL && pass->is_enough(pass->many->request);
}

/* ---- processes ---- */

#ifdef _WIN32

/* One file after the other, in this process. What the copies print on standard
 * output goes to standard error if that is for JSON. */
static bool
use_files(const struct pass *pass)
{
    struct repack_many *many = pass->many;
    const int kept = many->request->json ? dup(1) : -1;

    if (kept >= 0)
        (void)dup2(2, 1);
    for (size_t i = 0; i < many->files.n && !is_enough(pass); i++) {
        const struct repack_request request = request_of(many, i);
        if (many->files.at[i].trouble != NULL)
            continue;
        pass->use(&request, &many->outcomes[i]);
        print_messages(pass, i);
    }
    (void)fflush(stdout);
    if (kept >= 0) {
        (void)dup2(kept, 1);
        close(kept);
    }
    return true;
}

static int stopped_by;

#else

/* A process and its file. */
struct slot {
    struct repack_outcome *outcome; /* in memory that all processes share */
    pid_t pid;                      /* 0: free */
    size_t number;
    FILE *texts[2]; /* what it prints on standard output and error */
};

struct processes {
    const struct pass *pass;
    struct slot *slots; /* [njobs] */
    int nrunning;
    uint64_t done_nbytes; /* of files that are done */
    struct tool_progress progress;
};

/* ---- signals ---- */

static volatile sig_atomic_t stopped_by;

static void
note_signal(int number)
{
    stopped_by = number;
}

static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
enum {
    NENDS = sizeof ends / sizeof ends[0]
};

static void
handle_signals(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};

    sigemptyset(&action.sa_mask);
    for (int i = 0; i < NENDS; i++)
        (void)sigaction(ends[i], &action, NULL);
}

/* Lets the signals wait; the old mask ends that. */
static sigset_t
hold_signals(void)
{
    sigset_t signals, old;

    sigemptyset(&signals);
    for (int i = 0; i < NENDS; i++)
        sigaddset(&signals, ends[i]);
    (void)sigprocmask(SIG_BLOCK, &signals, &old);
    return old;
}

/* ---- the process of a file ---- */

_Noreturn static void
run_child(const struct pass *pass, struct slot *slot)
{
    const struct repack_request request = request_of(pass->many, slot->number);

    for (int i = 0; i < 2; i++)
        if (slot->texts[i] != NULL)
            (void)dup2(fileno(slot->texts[i]), i + 1);
    pass->use(&request, slot->outcome);
    (void)fflush(NULL);
    /* Functions of atexit() belong to the parent. */
    _exit(0);
}

/* Signals wait until the child has dropped the parent's handlers. */
static void
start(struct processes *processes, struct slot *slot, size_t number)
{
    const struct pass *pass = processes->pass;

    slot->number = number;
    memset(slot->outcome, 0, sizeof *slot->outcome);
    for (int i = 0; i < 2; i++)
        slot->texts[i] = tmpfile();
    (void)fflush(NULL);
    const sigset_t old = hold_signals();
    slot->pid = fork();
    if (slot->pid == 0)
        handle_signals(SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    if (slot->pid == 0)
        run_child(pass, slot);
    if (slot->pid > 0) {
        processes->nrunning++;
        return;
    }
    slot->pid = 0;
    fail(&pass->many->outcomes[number], pass->many->files.at[number].in,
         strerror(errno));
    print_messages(pass, number);
}

/* Prints a line that the copy of `in` has printed, with the file's name unless
 * the line begins with it. */
static void
print_line(FILE *to, const char *line, const char *in)
{
    static const char command[] = "terp repack: ";
    const char *name = tool_shown(in);
    const size_t n = sizeof command - 1;
    const bool is_message = strncmp(line, command, n) == 0;
    const char *rest = line + (is_message ? n : 0);

    fprintf(to, "%s", is_message ? command : "");
    if (strncmp(rest, name, strlen(name)) != 0)
        fprintf(to, "%s: ", name);
    fprintf(to, "%s", rest);
}

static void
print_texts(const struct pass *pass, struct slot *slot)
{
    char *line = NULL;
    size_t cap = 0;

    for (int i = 0; i < 2; i++) {
        FILE *to = i == 0 && !pass->many->request->json ? stdout : stderr;
        if (slot->texts[i] == NULL)
            continue;
        rewind(slot->texts[i]);
        while (pass->prints && getline(&line, &cap, slot->texts[i]) > 0)
            print_line(to, line, pass->many->files.at[slot->number].in);
        fclose(slot->texts[i]);
        slot->texts[i] = NULL;
    }
    free(line);
}

/* Takes over what an ended process leaves. */
static void
finish(struct processes *processes, struct slot *slot, int status)
{
    const struct pass *pass = processes->pass;
    const struct repack_file *file = &pass->many->files.at[slot->number];
    struct repack_outcome *outcome = &pass->many->outcomes[slot->number];
    char reason[128];

    memcpy(outcome, slot->outcome, sizeof *outcome);
    if (WIFSIGNALED(status) && stopped_by != 0) {
        outcome->state = REPACK_STOPPED;
    } else if (WIFSIGNALED(status)) {
        snprintf(reason, sizeof reason, "signal %d ended its process: %s",
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
        fail(outcome, file->in, reason);
    } else if (WEXITSTATUS(status) != 0) {
        fail(outcome, file->in, "its process ended early");
    }
    slot->pid = 0;
    processes->nrunning--;
    processes->done_nbytes += file->nbytes;
    tool_progress_end(&processes->progress);
    print_texts(pass, slot);
    print_messages(pass, slot->number);
}

/* ---- all processes ---- */

/* Shows the files that are done, and parts of the others. */
static void
show(struct processes *processes)
{
    const struct repack_many *many = processes->pass->many;
    struct tool_progress *progress = &processes->progress;
    uint64_t nbytes = processes->done_nbytes;

    for (int i = 0; i < many->request->njobs; i++) {
        const struct slot *slot = &processes->slots[i];
        if (slot->pid != 0)
            nbytes += many->files.at[slot->number].nbytes *
                      atomic_load(&slot->outcome->nhundredths) / 100;
    }
    if (nbytes > progress->done_nbytes)
        tool_progress_add(progress, nbytes - progress->done_nbytes);
}

/* Waits until a process ends. NULL: a signal came. */
static struct slot *
await_end(struct processes *processes, int *status_ret)
{
    const struct timespec pause = {.tv_nsec = REDRAW_NS};
    const int options = processes->progress.shown ? WNOHANG : 0;
    pid_t pid;

    while ((pid = waitpid(-1, status_ret, options)) == 0 && stopped_by == 0) {
        show(processes);
        nanosleep(&pause, NULL);
    }
    for (int i = 0; pid > 0 && i < processes->pass->many->request->njobs; i++)
        if (processes->slots[i].pid == pid)
            return &processes->slots[i];
    return NULL;
}

static void
stop_all(const struct processes *processes)
{
    for (int i = 0; i < processes->pass->many->request->njobs; i++)
        if (processes->slots[i].pid > 0)
            (void)kill(processes->slots[i].pid, SIGTERM);
}

static struct slot *
find_free(const struct processes *processes)
{
    for (int i = 0; i < processes->pass->many->request->njobs; i++)
        if (processes->slots[i].pid == 0)
            return &processes->slots[i];
    return NULL;
}

static void
run_processes(struct processes *processes)
{
    const struct repack_files *files = &processes->pass->many->files;
    size_t next = 0;
    int status;

    for (;;) {
        struct slot *slot = find_free(processes);
        while (next < files->n && files->at[next].trouble != NULL)
            next++;
        if (slot != NULL && next < files->n && stopped_by == 0 &&
            !is_enough(processes->pass)) {
            start(processes, slot, next++);
            continue;
        }
        if (processes->nrunning == 0)
            return;
        if (stopped_by != 0)
            stop_all(processes);
        slot = await_end(processes, &status);
        if (slot != NULL)
            finish(processes, slot, status);
    }
}

static void *
share(size_t nbytes)
{
    void *at = mmap(NULL, nbytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    return at == MAP_FAILED ? NULL : at;
}

static void
run_pass(struct processes *processes)
{
    const struct repack_files *files = &processes->pass->many->files;
    uint64_t total_nbytes = 0;

    for (size_t i = 0; i < files->n; i++)
        total_nbytes += files->at[i].nbytes;
    tool_progress_start(&processes->progress, total_nbytes);
    handle_signals(note_signal);
    run_processes(processes);
    handle_signals(SIG_DFL);
    tool_progress_end(&processes->progress);
}

/* False without memory. */
static bool
use_files(const struct pass *pass)
{
    const size_t njobs = (size_t)pass->many->request->njobs;
    struct processes processes = {.pass = pass};
    struct repack_outcome *outcomes = share(njobs * sizeof *outcomes);

    processes.slots = calloc(njobs, sizeof *processes.slots);
    const bool ok = outcomes != NULL && processes.slots != NULL;
    for (size_t i = 0; ok && i < njobs; i++)
        processes.slots[i].outcome = &outcomes[i];
    if (ok)
        run_pass(&processes);
    free(processes.slots);
    if (outcomes != NULL)
        (void)munmap(outcomes, njobs * sizeof *outcomes);
    return ok;
}
#endif

/* ---- rules ---- */

static bool
are_rules_used(const struct repack_request *request)
{
    for (int i = 0; i < request->nrules; i++)
        if (!request->rules[i].used)
            return false;
    return true;
}

/* Moves the rules to memory where processes can mark them. */
static bool
share_rules(struct repack_request *request)
{
#ifndef _WIN32
    const size_t nbytes = (size_t)request->nrules * sizeof *request->rules;
    struct repack_rule *shared = nbytes == 0 ? NULL : share(nbytes);

    if (shared != NULL) {
        memcpy(shared, request->rules, nbytes);
        free(request->rules);
        request->rules = shared;
    }
    return shared != NULL || nbytes == 0;
#else
    (void)request;
    return true;
#endif
}

/* The opposite: the request frees its rules. */
static void
free_rules(struct repack_request *request)
{
#ifndef _WIN32
    const size_t nbytes = (size_t)request->nrules * sizeof *request->rules;

    for (int i = 0; i < request->nrules; i++)
        free(request->rules[i].glob);
    if (nbytes > 0) {
        (void)munmap(request->rules, nbytes);
        request->rules = NULL;
    }
    request->nrules = 0;
#else
    (void)request;
#endif
}

/* Before anything is written: whether each rule matches a dataset in one of the
 * files. A mistyped rule would otherwise go unnoticed, and files in place would
 * lose values that it should have kept. */
static bool
check_rules(struct repack_many *many)
{
    const struct repack_request *request = many->request;
    const struct pass pass = {many, repack_match, false, are_rules_used};

    if (request->target == REPACK_TO_OUT || are_rules_used(request))
        return true;
    if (!use_files(&pass))
        return false;
    for (int i = 0; i < request->nrules; i++)
        if (!request->rules[i].used && stopped_by == 0)
            fprintf(stderr,
                    "terp repack: --dataset %s: no dataset that terp can "
                    "compress matches in any file\n",
                    tool_shown(request->rules[i].text));
    memset(many->outcomes, 0, many->files.n * sizeof *many->outcomes);
    return are_rules_used(request);
}

/* ---- the run ---- */

/* A use_file: copies a file. */
static void
copy_file(const struct repack_request *request,
          struct repack_outcome *outcome_ret)
{
    if (request->target == REPACK_TO_DIRECTORY &&
        !repack_files_make_directories(request->path_out))
        fail(outcome_ret, request->path_out, strerror(errno));
    else
        repack_copy(request, outcome_ret);
}

/* Reports files that were not found. */
static void
print_troubles(struct repack_many *many)
{
    for (size_t i = 0; i < many->files.n; i++) {
        const struct repack_file *file = &many->files.at[i];
        if (file->trouble == NULL)
            continue;
        fail(&many->outcomes[i], file->in, file->trouble);
        print_failure("terp repack", file, &many->outcomes[i]);
    }
}

static void
sum(struct repack_many *many)
{
    for (size_t i = 0; i < many->files.n; i++) {
        const struct repack_outcome *outcome = &many->outcomes[i];
        many->nof_state[outcome->state]++;
        if (outcome->state == REPACK_FAILED || outcome->state == REPACK_STOPPED)
            continue;
        many->in_nbytes += outcome->in_nbytes;
        many->out_nbytes += outcome->out_nbytes;
    }
}

/* Prints the totals, and again the failures, which may have scrolled away. */
static void
print_summary(const struct repack_many *many)
{
    const struct repack_files *files = &many->files;
    char before[16], after[16];

    fprintf(stderr, "files: %zu", files->n);
    for (int i = REPACK_NSTATES - 1; i >= 0; i--)
        if (many->nof_state[i] > 0)
            fprintf(stderr, ", %" PRIu64 " %s", many->nof_state[i],
                    repack_state_name((enum repack_state)i));
    if (files->nothers > 0)
        fprintf(stderr, "; not HDF5: %" PRIu64, files->nothers);
    if (files->nlinks > 0)
        fprintf(stderr, "; symbolic links: %" PRIu64, files->nlinks);
    tool_nbytes_text((double)many->in_nbytes, before);
    tool_nbytes_text((double)many->out_nbytes, after);
    if (many->out_nbytes > 0)
        fprintf(stderr, "; %s -> %s, ratio %.2f", before, after,
                (double)many->in_nbytes / (double)many->out_nbytes);
    fprintf(stderr, ", %.1f s\n", many->seconds);
    for (size_t i = 0; i < files->n; i++)
        if (many->outcomes[i].state == REPACK_FAILED)
            print_failure("failed", &files->at[i], &many->outcomes[i]);
}

static int
code_of(const struct repack_many *many)
{
    int code = many->nof_state[REPACK_FAILED] > 0 ||
                       many->nof_state[REPACK_STOPPED] > 0
                   ? TOOL_TROUBLE
                   : TOOL_OK;

    for (size_t i = 0; i < many->files.n && code == TOOL_OK; i++)
        if (many->outcomes[i].nlost > 0 || many->outcomes[i].nleft_out > 0)
            code = TOOL_FOUND;
    return code;
}

static int
run(struct repack_many *many)
{
    const struct pass pass = {many, copy_file, true, NULL};
    const double start_s = tool_seconds();

    if (!check_rules(many) && stopped_by == 0)
        return TOOL_TROUBLE;
    print_troubles(many);
    if (stopped_by == 0 && !use_files(&pass)) {
        perror("terp repack");
        return TOOL_TROUBLE;
    }
    many->seconds = tool_seconds() - start_s;
    sum(many);
    if (repack_is_of_many(many->request))
        print_summary(many);
#ifdef TERP_HAVE_JANSSON
    if (many->request->json)
        repack_many_print_json(many);
#endif
    return code_of(many);
}

int
repack_many(struct repack_request *request)
{
    struct repack_many many = {.request = request};
    int code = TOOL_TROUBLE;

    if (share_rules(request) && repack_files_find(request, &many.files)) {
        const uint64_t n = many.files.n > 0 ? many.files.n : 1;
        request->njobs = (int)min_u64((uint64_t)request->njobs, n);
        many.outcomes = calloc(n, sizeof *many.outcomes);
        code = many.outcomes != NULL ? run(&many) : TOOL_TROUBLE;
    }
    free(many.outcomes);
    repack_files_free(&many.files);
    free_rules(request);
    if (stopped_by != 0) {
        (void)fflush(NULL);
        (void)raise(stopped_by);
    }
    return code;
}
