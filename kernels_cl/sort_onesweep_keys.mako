## Common parts of the kernels of a radix sort for GPUs: the digit of a key, and the arrays that a pass moves between.
## A key is moved as its own bits. Its rank, which sort_radix_elements.mako maps it to, orders it: keys that NumPy takes
## as equal have the same rank. Pass k sorts by a digit of `width` bits of the rank, from bit `first_bit + k * width` up.
## Parameters: key (unsigned C type of the key's size), kind, key_bits, descending (see sort_radix_elements),
## first_bit, last_bit (the bits of ranks that keys are sorted by: first_bit ... last_bit - 1), width, passes.
<%namespace name="elements" file="sort_radix_elements.mako"/>
<%def name="types()">
typedef ${key} KEY;
typedef uint VALUE;
typedef ${"ulong" if key_bits == 64 else "uint"} RANK;
#define BINS ${1 << width}
#define PASSES ${passes}

${elements.order("encoded", "rank_of", key, "RANK", "RANK")}

static uint digit_of(const KEY k, const int pass) {
    const uint shift = ${first_bit} + (uint) pass * ${width};
    const uint bits = min((uint) ${width}, ${last_bit} - shift);
    return (uint) (rank_of(encoded(k)) >> shift) & ((1u << bits) - 1);
}
</%def>
##
## MOVE: whether a pass moves the keys of a row, from which array and to which. A pass whose digit all keys share does
## nothing, but at least `least` passes move: 1, or 2 if the result overwrites the source. The last one writes the result.
<%def name="moves()">
enum { SOURCE, FIRST, SECOND, RESULT };
typedef struct { int active, from, to; } MOVE;

static int target_of(const int number, const int all) {
    return number == all - 1 ? RESULT : (all - 1 - number) % 2 ? FIRST : SECOND;
}

<% moves = "ulong" if passes > 32 else "uint" %>
/* varies: for each pass, whether digits of the row differ. */
static MOVE move_of(global const uint* varies, const int pass, const int least) {
    ${moves} moves = 0; /* bit k: pass k moves the row */
    for (int k = 0; k < PASSES; ++k) moves |= (${moves}) varies[k] << k;
    while ((int) popcount(moves) < least) moves |= moves + 1; /* the first pass that would not */
    const int all = (int) popcount(moves), number = (int) popcount(moves & (((${moves}) 2 << pass) - 1)) - 1;
    const MOVE move = {(int) (moves >> pass) & 1, number > 0 ? target_of(number - 1, all) : SOURCE, target_of(number, all)};
    return move;
}
</%def>
