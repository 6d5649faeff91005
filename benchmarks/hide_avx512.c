/* Makes this process see a processor without AVX-512, for benchmarks of an AVX2 machine.
 *
 *     cc -shared -fPIC -o hide_avx512.so hide_avx512.c -ldl
 *     LD_PRELOAD=./hide_avx512.so python -m benchmarks inference
 *
 * Most engines ask the CPUID instruction what they may use. Linux can make that instruction fault
 * on Intel processors ("cpuid_fault" in /proc/cpuinfo); the handler here executes it, clears the
 * bits of AVX-512, AMX and AVX-VNNI, and goes on behind it. DeepSparse reads /proc/cpuinfo instead,
 * so whoever opens that gets a copy without those words. Nothing else changes: the processor's clock
 * and caches stay what they are.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { ARCH_SET_CPUID = 0x1012, MAY_RUN = 1, FAULTS = 0 };

#define CPUINFO "/proc/cpuinfo"
#define BIT(n) (1u << (n))

static const uint32_t LEAF7_EBX = BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) |
                                  BIT(30) | BIT(31); /* F DQ IFMA PF ER CD BW VL */
static const uint32_t LEAF7_ECX =
    BIT(1) | BIT(6) | BIT(11) | BIT(12) | BIT(14); /* VBMI VBMI2 VNNI BITALG VPOPCNTDQ */
static const uint32_t LEAF7_EDX = BIT(2) | BIT(3) | BIT(8) | BIT(22) | BIT(23) | BIT(24) |
                                  BIT(25); /* 4VNNIW 4FMAPS VP2INTERSECT AMX-BF16 FP16 AMX */
static const uint32_t LEAF7_1_EAX = BIT(4) | BIT(5) | BIT(21) | BIT(23); /* AVX-VNNI BF16 AMX */

/* What the program itself wants done about its faults: an engine may install a handler too. */
static struct sigaction wanted;

static void on_fault(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uint8_t *code = (const uint8_t *)registers[REG_RIP];
    if (code[0] != 0x0f || code[1] != 0xa2) { /* not CPUID: a fault of the program's own */
        if (wanted.sa_flags & SA_SIGINFO) {
            wanted.sa_sigaction(number, info, context);
        } else {
            _exit(128 + number);
        }
        return;
    }
    uint32_t leaf = (uint32_t)registers[REG_RAX], subleaf = (uint32_t)registers[REG_RCX];
    uint32_t a = leaf, b, c = subleaf, d;
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, MAY_RUN);
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, FAULTS);
    if (leaf == 7 && subleaf == 0) {
        b &= ~LEAF7_EBX;
        c &= ~LEAF7_ECX;
        d &= ~LEAF7_EDX;
    } else if (leaf == 7 && subleaf == 1) {
        a &= ~LEAF7_1_EAX;
    }
    registers[REG_RAX] = a;
    registers[REG_RBX] = b;
    registers[REG_RCX] = c;
    registers[REG_RDX] = d;
    registers[REG_RIP] += 2;
}

typedef int (*Sigaction)(int, const struct sigaction *, struct sigaction *);

int sigaction(int number, const struct sigaction *action, struct sigaction *old) {
    if (number != SIGSEGV) return ((Sigaction)dlsym(RTLD_NEXT, "sigaction"))(number, action, old);
    if (old) *old = wanted;
    if (action) wanted = *action;
    return 0;
}

/* A file in memory that holds /proc/cpuinfo with the words for what is hidden blanked out. */
static int filtered_cpuinfo(void) {
    static const char *const hidden[] = {" avx512", " amx_", " avx_vnni"};
    static char text[1 << 20];
    int real = (int)syscall(SYS_openat, AT_FDCWD, CPUINFO, O_RDONLY);
    size_t length = 0;
    for (ssize_t got; (got = read(real, text + length, sizeof text - 1 - length)) > 0;)
        length += (size_t)got;
    close(real);
    text[length] = 0;
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; ++i)
        for (char *at = text; (at = strstr(at, hidden[i]));)
            for (*at++ = ' '; *at > ' '; ++at) *at = ' ';
    int copy = memfd_create("cpuinfo", 0);
    if (write(copy, text, length) != (ssize_t)length) _exit(3);
    lseek(copy, 0, SEEK_SET);
    return copy;
}

typedef FILE *(*Fopen)(const char *, const char *);

FILE *fopen(const char *path, const char *mode) {
    if (strcmp(path, CPUINFO) == 0) return fdopen(filtered_cpuinfo(), "r");
    return ((Fopen)dlsym(RTLD_NEXT, "fopen"))(path, mode);
}

FILE *fopen64(const char *path, const char *mode) { return fopen(path, mode); }

typedef int (*Open)(const char *, int, ...);

int open(const char *path, int flags, ...) {
    if (strcmp(path, CPUINFO) == 0) return filtered_cpuinfo();
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return ((Open)dlsym(RTLD_NEXT, "open"))(path, flags, mode);
}

__attribute__((alias("open"))) int open64(const char *path, int flags, ...);

__attribute__((constructor)) static void hide(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    ((Sigaction)dlsym(RTLD_NEXT, "sigaction"))(SIGSEGV, &action, 0);
    if (syscall(SYS_arch_prctl, ARCH_SET_CPUID, FAULTS) != 0) {
        static const char sorry[] = "this processor or kernel cannot hide AVX-512\n";
        if (write(2, sorry, sizeof sorry - 1) < 0) _exit(3);
        _exit(2);
    }
}
