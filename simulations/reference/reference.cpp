// What a SealPIR server on Microsoft SEAL does for one query. README.md says how far that is the same as what `sotto-sim pir`
// measures of ours.
//
// The protocol is the paper's with the parameters of the published implementation: N = 4096, a data modulus of two primes
// of 36 bits, t = 2056193, two dimensions with a query ciphertext each, and columns' results switched to one prime and
// cut into plaintexts of 20 bits. Arithmetic is the library's; build it with HEXL, or the comparison flatters us.
//
//     reference ELEMENTS [RUNS]
//
// prints one JSON object: medians of RUNS runs (default 5), CPU time of one thread, milliseconds.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <utility>
#include <vector>

#include <seal/seal.h>
#include <seal/util/polyarithsmallmod.h>

using namespace seal;

namespace {

constexpr std::size_t DEGREE = 4096;
constexpr std::uint64_t PLAIN_MODULUS = 2056193;
constexpr int PLAIN_BITS = 20;
constexpr std::size_t ELEMENT_BYTES = 288;
constexpr std::uint64_t PLAIN_MASK = (1u << PLAIN_BITS) - 1;

double cpu_ms() {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

std::uint32_t levels_for(std::uint32_t selectors) {
    std::uint32_t levels = 0;
    while ((1u << levels) < selectors) {
        levels++;
    }
    return levels;
}

struct Reference {
    SEALContext context;
    KeyGenerator generator;
    Encryptor encryptor;
    Decryptor decryptor;
    Evaluator evaluator;
    GaloisKeys keys;

    explicit Reference(const EncryptionParameters &parameters)
        : context(parameters), generator(context), encryptor(context, generator.secret_key()),
          decryptor(context, generator.secret_key()), evaluator(context) {
        std::vector<std::uint32_t> elements;
        for (std::size_t power = DEGREE; power > 1; power /= 2) {
            elements.push_back(static_cast<std::uint32_t>(power + 1));
        }
        generator.create_galois_keys(elements, keys);
    }

    // Bytes, cut into coefficients of 20 bits, in evaluation form modulo both data primes.
    Plaintext encode(const std::uint8_t *bytes, std::size_t size) {
        Plaintext plaintext(DEGREE);
        std::uint64_t window = 0;
        int bits = 0;
        std::size_t coefficient = 0;
        for (std::size_t i = 0; i < size; i++) {
            window |= static_cast<std::uint64_t>(bytes[i]) << bits;
            bits += 8;
            if (bits >= PLAIN_BITS) {
                plaintext[coefficient++] = window & PLAIN_MASK;
                window >>= PLAIN_BITS;
                bits -= PLAIN_BITS;
            }
        }
        if (bits > 0) {
            plaintext[coefficient] = window;
        }
        evaluator.transform_to_ntt_inplace(plaintext, context.first_parms_id());
        return plaintext;
    }

    // An encryption of 2^-levels X^index.
    Ciphertext query(std::uint32_t selectors, std::size_t index) {
        std::uint64_t inverse = 0;
        util::try_invert_uint_mod(std::uint64_t(1) << levels_for(selectors), Modulus(PLAIN_MODULUS), inverse);
        Plaintext plaintext(DEGREE);
        plaintext.set_zero();
        plaintext[index] = inverse;
        Ciphertext ciphertext;
        encryptor.encrypt_symmetric(plaintext, ciphertext);
        return ciphertext;
    }

    // `source X^shift`.
    Ciphertext rotate(const Ciphertext &source, std::size_t shift) {
        const auto &moduli = context.get_context_data(source.parms_id())->parms().coeff_modulus();
        Ciphertext out;
        out.resize(context, source.parms_id(), source.size());
        for (std::size_t half = 0; half < source.size(); half++) {
            for (std::size_t i = 0; i < moduli.size(); i++) {
                util::negacyclic_shift_poly_coeffmod(
                    util::ConstCoeffIter(source.data(half) + i * DEGREE), DEGREE, shift, moduli[i],
                    util::CoeffIter(out.data(half) + i * DEGREE));
            }
        }
        return out;
    }

    // EXPAND (Figure 3 of the paper): from c, with s the substitution of X by X^(N / 2^j + 1), to c + s(c) and to
    // X^(-2^j) (c - s(c)), since s takes X^(-2^j) to its negative. A node without a right child is doubled instead.
    std::vector<Ciphertext> expand(const Ciphertext &query, std::uint32_t selectors) {
        std::vector<Ciphertext> nodes{query};
        for (std::uint32_t width = 1; width < selectors; width *= 2) {
            const std::uint32_t element = static_cast<std::uint32_t>(DEGREE / width + 1);
            const std::uint32_t twins = std::min(width, selectors - width);
            nodes.resize(width + twins);
            Ciphertext substituted, difference;
            for (std::uint32_t node = 0; node < width; node++) {
                if (node >= twins) {
                    evaluator.add_inplace(nodes[node], Ciphertext(nodes[node]));
                    continue;
                }
                evaluator.apply_galois(nodes[node], element, keys, substituted);
                evaluator.sub(nodes[node], substituted, difference);
                nodes[node + width] = rotate(difference, 2 * DEGREE - width);
                evaluator.add_inplace(nodes[node], substituted);
            }
        }
        return nodes;
    }

    // `sum_i selectors[i] * plaintexts[i * stride]`, in coefficients.
    Ciphertext product(const std::vector<Ciphertext> &selectors, const Plaintext *plaintexts, std::size_t stride) {
        Ciphertext sum, term;
        evaluator.multiply_plain(selectors[0], plaintexts[0], sum);
        for (std::size_t i = 1; i < selectors.size(); i++) {
            evaluator.multiply_plain(selectors[i], plaintexts[i * stride], term);
            evaluator.add_inplace(sum, term);
        }
        evaluator.transform_from_ntt_inplace(sum);
        return sum;
    }

    std::vector<Ciphertext> selectors(const Ciphertext &query, std::uint32_t count, double &expand_ms) {
        const double start = cpu_ms();
        std::vector<Ciphertext> selectors = expand(query, count);
        expand_ms += cpu_ms() - start;
        for (Ciphertext &selector : selectors) {
            evaluator.transform_to_ntt_inplace(selector);
        }
        return selectors;
    }
};

} // namespace

int main(int count, char **arguments) {
    if (count < 2) {
        std::fprintf(stderr, "usage: reference ELEMENTS [RUNS]\n");
        return 2;
    }
    const std::size_t elements = std::strtoull(arguments[1], nullptr, 10);
    const int runs = count > 2 ? std::atoi(arguments[2]) : 5;
    if (elements == 0 || runs < 1) {
        std::fprintf(stderr, "at least one element and one run\n");
        return 2;
    }

    EncryptionParameters parameters(scheme_type::bfv);
    parameters.set_poly_modulus_degree(DEGREE);
    parameters.set_coeff_modulus(CoeffModulus::BFVDefault(DEGREE));
    parameters.set_plain_modulus(PLAIN_MODULUS);
    Reference server(parameters);
    const auto last = server.context.last_parms_id();

    const std::size_t per_plaintext = PLAIN_BITS * DEGREE / 8 / ELEMENT_BYTES;
    const std::size_t plaintexts = (elements + per_plaintext - 1) / per_plaintext;
    auto rows = static_cast<std::uint32_t>(std::sqrt(static_cast<double>(plaintexts)));
    std::uint32_t columns = rows;
    rows += std::size_t(rows) * columns < plaintexts;
    columns += std::size_t(rows) * columns < plaintexts;
    const std::size_t places = std::size_t(rows) * columns;

    std::mt19937_64 random(std::random_device{}());
    std::vector<std::uint8_t> bytes(places * per_plaintext * ELEMENT_BYTES);
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::uint8_t>(random()); });

    std::vector<double> setups, expands, replies;
    bool verified = true;
    for (int run = 0; run < runs + 1; run++) {
        double start = cpu_ms();
        std::vector<Plaintext> database;
        database.reserve(places);
        for (std::size_t place = 0; place < places; place++) {
            database.push_back(
                server.encode(&bytes[place * per_plaintext * ELEMENT_BYTES], per_plaintext * ELEMENT_BYTES));
        }
        const double setup = cpu_ms() - start;

        const std::size_t row = random() % rows, column = random() % columns;
        const Ciphertext query[] = {server.query(rows, row), server.query(columns, column)};

        start = cpu_ms();
        double expand = 0;
        const auto row_selectors = server.selectors(query[0], rows, expand);
        std::vector<Plaintext> middle; // four of each column
        for (std::size_t k = 0; k < columns; k++) {
            Ciphertext result = server.product(row_selectors, &database[k * rows], 1);
            server.evaluator.mod_switch_to_inplace(result, last);
            for (int part = 0; part < 4; part++) {
                Plaintext piece(DEGREE);
                const std::uint64_t *half = result.data(part / 2);
                for (std::size_t i = 0; i < DEGREE; i++) {
                    piece[i] = part % 2 == 0 ? half[i] & PLAIN_MASK : half[i] >> PLAIN_BITS;
                }
                server.evaluator.transform_to_ntt_inplace(piece, server.context.first_parms_id());
                middle.push_back(std::move(piece));
            }
        }
        const auto column_selectors = server.selectors(query[1], columns, expand);
        std::vector<Ciphertext> answer;
        for (int part = 0; part < 4; part++) {
            answer.push_back(server.product(column_selectors, &middle[part], 4));
            server.evaluator.mod_switch_to_inplace(answer.back(), last);
        }
        const double reply = cpu_ms() - start;

        // The client's side: from the answer the column's result, from it the plaintext.
        Ciphertext inner;
        inner.resize(server.context, last, 2);
        for (int part = 0; part < 4; part++) {
            Plaintext piece;
            server.decryptor.decrypt(answer[part], piece);
            for (std::size_t i = 0; i < DEGREE; i++) {
                const std::uint64_t value = i < piece.coeff_count() ? piece[i] : 0;
                std::uint64_t &out = inner.data(part / 2)[i];
                out = part % 2 == 0 ? value : out | value << PLAIN_BITS;
            }
        }
        Plaintext found;
        server.decryptor.decrypt(inner, found);
        found.resize(DEGREE);
        server.evaluator.transform_to_ntt_inplace(found, server.context.first_parms_id());
        verified &= found == database[column * rows + row];

        if (run > 0) { // the first one warms up
            setups.push_back(setup);
            expands.push_back(expand);
            replies.push_back(reply);
        }
    }
    std::printf(
        "{\"elements\":%zu,\"rows\":%u,\"columns\":%u,\"answer_cpu_ms\":%.2f,\"expand_cpu_ms\":%.2f,"
        "\"setup_cpu_ms\":%.1f,\"verified\":%s}\n",
        elements, rows, columns, median(replies), median(expands), median(setups), verified ? "true" : "false");
    return verified ? 0 : 1;
}
