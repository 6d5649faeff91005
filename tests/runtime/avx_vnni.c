/* Emulates `vpdpbusd` of AVX-VNNI on processors without it, so that its kernels can be tested there.
 *
 *     cc -shared -fPIC -o avx_vnni.so avx_vnni.c
 *     LD_PRELOAD=./avx_vnni.so SKINNY_ISA=avx2 SKINNY_VNNI=1 python ...
 *
 * The processor faults at the instruction; the handler here decodes it, computes what Intel's manual
 * says in the saved registers, and goes on behind it. Says at the end how many there were.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

static long emulated;

/* Of the frame's saved state: the low halves of the vectors, and the high ones (XSAVE, component 2). */
enum { LOW_HALVES = 160, HIGH_HALVES = 576 };

static void get_vector(const uint8_t *state, unsigned number, uint8_t *to) {
    memcpy(to, state + LOW_HALVES + 16 * number, 16);
    memcpy(to + 16, state + HIGH_HALVES + 16 * number, 16);
}

static void set_vector(uint8_t *state, unsigned number, const uint8_t *from) {
    memcpy(state + LOW_HALVES + 16 * number, from, 16);
    memcpy(state + HIGH_HALVES + 16 * number, from + 16, 16);
}

static uint64_t general(const greg_t *registers, unsigned number) {
    static const int at[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                               REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                               REG_R12, REG_R13, REG_R14, REG_R15};
    return (uint64_t)registers[at[number]];
}

static void on_illegal(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    ucontext_t *frame = context;
    greg_t *registers = frame->uc_mcontext.gregs;
    uint8_t *state = (uint8_t *)frame->uc_mcontext.fpregs;
    const uint8_t *code = (const uint8_t *)registers[REG_RIP];
    /* VEX of three bytes, opcodes 0F38, W0, 256 bits, 66, vpdpbusd */
    if (code[0] != 0xC4 || (code[1] & 31) != 2 || (code[2] & 0x87) != 5 || code[3] != 0x50) {
        static const char sorry[] = "an instruction that is not vpdpbusd of AVX-VNNI\n";
        if (write(2, sorry, sizeof sorry - 1) < 0) _exit(3);
        _exit(2);
    }
    unsigned r = ~code[1] >> 7 & 1, x = ~code[1] >> 6 & 1, b = ~code[1] >> 5 & 1;
    unsigned mod = code[4] >> 6, sum = (code[4] >> 3 & 7) | r << 3, rm = code[4] & 7;
    unsigned first = ~(unsigned)code[2] >> 3 & 15;
    const uint8_t *next = code + 5;
    uint8_t sums[32], unsigned_bytes[32], signed_bytes[32];
    get_vector(state, sum, sums);
    get_vector(state, first, unsigned_bytes);
    if (mod == 3) {
        get_vector(state, rm | b << 3, signed_bytes);
    } else {
        uint64_t address = 0;
        int8_t near;
        int32_t far;
        unsigned base = rm;
        if (rm == 4) {
            unsigned index = (*next >> 3 & 7) | x << 3;
            if (index != 4) address = general(registers, index) << (*next >> 6);
            base = *next++ & 7;
        }
        if (mod == 0 && base == 5) _exit(4); /* an address that no kernel has */
        address += general(registers, base | b << 3);
        if (mod == 1) memcpy(&near, next, 1), address += (uint64_t)(int64_t)near, next += 1;
        if (mod == 2) memcpy(&far, next, 4), address += (uint64_t)(int64_t)far, next += 4;
        memcpy(signed_bytes, (const void *)address, 32);
    }
    for (int lane = 0; lane < 32; lane += 4) {
        int32_t total;
        memcpy(&total, sums + lane, 4);
        for (int i = lane; i < lane + 4; ++i)
            total = (int32_t)((uint32_t)total + (uint32_t)(unsigned_bytes[i] * (int8_t)signed_bytes[i]));
        memcpy(sums + lane, &total, 4);
    }
    set_vector(state, sum, sums);
    registers[REG_RIP] = (greg_t)next;
    __atomic_fetch_add(&emulated, 1, __ATOMIC_RELAXED);
}

__attribute__((constructor)) static void begin(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_illegal;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGILL, &action, 0);
}

__attribute__((destructor)) static void end(void) {
    fprintf(stderr, "vpdpbusd: %ld emulated\n", emulated);
}
