#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "../arrays.h"
#include "baseline_functions.h"
#include "block_matrix_functions.h"
#include "block_views.h"
#include "gap_functions.h"
#include "joint_views.h"
#include "part_views.h"
#include "petamap/mapmaking/bin.h"
#include "petamap/mapmaking/binned_sums.h"
#include "petamap/mapmaking/gaps.h"
#include "petamap/mapmaking/normal.h"
#include "petamap/mapmaking/signal.h"
#include "petamap/mapmaking/weights.h"
#include "pointing_views.h"
#include "sample_views.h"
#include "template_views.h"
#include "vector_functions.h"

namespace nb = nanobind;
namespace pm = petamap::mapmaking;
using namespace bindings;

namespace {

// The lags of all kernels, [n_kernel][n_lag + 1], and the transform that applies them.
class Kernels {
  public:
    Kernels(In<double, 2> lags, std::size_t transform)
        : lags_(lags.data(), lags.data() + lags.size()), n_lag_(length(lags.shape(1)) - 1) {
        require(n_lag_ >= 0, "at least lag 0");
        if (n_lag_ > 0) convolver_.emplace(transform);
        if (n_lag_ > 0) require(length(transform) > 2 * n_lag_, "a transform longer than the band");
    }
    pm::InverseNoise view() const { return {convolver_ ? &*convolver_ : nullptr, lags_.data(), n_lag_}; }
    std::int64_t n() const { return length(lags_.size()) / (n_lag_ + 1); }

  private:
    std::vector<double> lags_;
    std::int64_t n_lag_;
    std::optional<petamap::noise::Convolver> convolver_;
};

// The vectors that P^T N^-1 P is applied to, and what is added up, checked.
pm::Maps maps_of(const In<double, 3>& map, const In<double, 2>& gaps, const In<double>& scales,
                 Out<std::int64_t, 4>& sums, Out<std::int64_t, 3>& gap_sums, std::int64_t n_threads) {
    const std::size_t width = map.shape(2);
    require(map.shape(1) >= 1 && map.shape(1) <= 3, "map: 1 to 3 Stokes parameters");
    require(sums.shape(0) >= 1, "sums: a copy");
    require(length(sums.shape(0)) <= n_threads && n_threads <= 4096,
            "n_threads: as many as copies of sums, or more, up to 4096");
    require(is_width(width) && gaps.shape(1) == width && scales.shape(0) == width, "1, 2, 4 or 8 columns");
    require(sums.shape(3) == width && gap_sums.shape(2) == width, "sums of each column");
    require(sums.shape(1) == map.shape(0) && sums.shape(2) == map.shape(1), "a word a Stokes parameter");
    require(gap_sums.shape(1) == gaps.shape(0), "a sum an unknown");
    require(gap_sums.shape(0) == sums.shape(0) || gap_sums.shape(0) == 1, "sums of each copy, or of all");
    return {map.data(),
            gaps.data(),
            sums.data(),
            gap_sums.data(),
            scales.data(),
            length(map.shape(0)),
            length(gaps.shape(0)),
            static_cast<int>(map.shape(1)),
            static_cast<int>(width),
            static_cast<int>(n_threads),
            static_cast<int>(sums.shape(0)),
            gap_sums.shape(0) > 1};
}

// P^T N^-1 P of a table's samples, one way or the other.
template <class Table>
void apply(const Table& table, const Kernels& kernels, const In<double, 3>& map, const In<double, 2>& gaps,
           const In<double>& scales, Out<std::int64_t, 4>& sums, Out<std::int64_t, 3>& gap_sums,
           const TemplateTable* templates, const JointTable* joint, std::int64_t n_threads) {
    auto maps = maps_of(map, gaps, scales, sums, gap_sums, n_threads);
    const auto blocks = table.blocks();
    for (const pm::Block& block : blocks) require_block(block, kernels.view(), kernels.n());
    require(table.n_pixels() <= maps.n_local, "map: a row for each pixel");
    require(table.n_slots() <= maps.n_gaps, "gaps: a row for each of them");
    // what an index does not have may be a gap that nobody has counted: its row is of no use
    std::vector<double> no_gap(gap_sums.shape(2));
    std::vector<std::int64_t> no_sum(gap_sums.shape(2));
    if (maps.n_gaps == 0) {
        maps.gaps = no_gap.data();
        maps.gap_sums = no_sum.data();
    }
    const TemplateView view(templates, maps.n_gaps, maps.n_local, table.n_streams());
    maps.templates = view.get();
    const JointView joint_view(joint, blocks, kernels.n());
    maps.joint = joint_view.get();
    const auto source = table.view(maps.n_stokes > 1);
    nb::gil_scoped_release release;
    pm::apply_normal(blocks, source, kernels.view(), maps);
}

const pm::Block& block_of(const In<std::int64_t>& block) {
    require(block.shape(0) == 6, "6 numbers a block");
    return *reinterpret_cast<const pm::Block*>(block.data());
}

void filter_block(In<std::int64_t> block, const Kernels& kernels, In<double, 2> input, Out<double, 2> time) {
    const auto& one = block_of(block);
    require_block(one, kernels.view(), kernels.n());
    require(length(input.shape(1)) == one.n_in && length(time.shape(1)) == one.n_out, "the block's lengths");
    require(input.shape(0) == time.shape(0), "as many outputs as inputs");
    nb::gil_scoped_release release;
    pm::filter_block(one, kernels.view(), input.data(), static_cast<int>(input.shape(0)), time.data());
}

void require_weights_row(std::size_t row, int n_stokes) {
    require(length(row) == pm::weights_row(n_stokes),
            "sums: hits and the upper triangle of a matrix a pixel");
}

void add_weights(In<std::int32_t> pixels, MaybeIn<std::uint32_t> angles, MaybeIn<float> gains,
                 double intensity, double efficiency, int n_stokes, double weight, double scale,
                 Out<std::int64_t, 2> sums) {
    require_stokes(n_stokes, angles.has_value());
    require_weights_row(sums.shape(1), n_stokes);
    require_pixels(pixels, sums.shape(0));
    const auto samples = samples_of(pixels, angles, gains, intensity, efficiency, pixels.shape(0));
    nb::gil_scoped_release release;
    pm::add_weights(samples, length(pixels.shape(0)), n_stokes, weight, scale, sums.data());
}

// Hits and weights of a table's samples, one way or the other.
template <class Table>
void sum_weights(const Table& table, int n_stokes, const In<double>& weights, double scale,
                 Out<std::int64_t, 3>& sums) {
    require(n_stokes >= 0 && n_stokes <= 3, "n_stokes: 0 to 3");
    require_weights_row(sums.shape(2), n_stokes);
    require(sums.shape(0) >= 1 && sums.shape(0) <= 4096, "sums: of 1 to 4096 threads");
    require(table.n_pixels() <= length(sums.shape(1)), "sums: a row for each pixel");
    require(table.n_streams() <= length(weights.shape(0)), "weights: of each stream");
    for (const pm::Block& block : table.blocks()) require_outputs(block);
    const pm::WeightSums to{sums.data(), length(sums.shape(1)), n_stokes, static_cast<int>(sums.shape(0))};
    const auto source = table.view(n_stokes > 1);
    nb::gil_scoped_release release;
    pm::add_weights(table.blocks(), source, weights.data(), scale, to);
}

void add_signals(In<std::int32_t> pixels, MaybeIn<std::uint32_t> angles, MaybeIn<float> gains,
                 double intensity, double efficiency, In<double, 2> filtered, In<double, 2> data,
                 double weight, double scale, int low_bits, Out<std::int64_t, 4> sums,
                 Out<std::int64_t, 3> gap_sums, Out<double> largest) {
    const std::size_t width = filtered.shape(0), n = filtered.shape(1);
    require(is_width(width) && largest.shape(0) == width, "1, 2, 4 or 8 columns");
    require(data.shape(0) == width && data.shape(1) == n, "two values a sample");
    require(sums.shape(2) == 4 && gap_sums.shape(1) == 2, "two words of two values a pixel, of one a gap");
    require(sums.shape(3) == width && gap_sums.shape(2) == width, "sums of each column");
    require_stokes(length(sums.shape(1)), angles.has_value());
    require_low_bits(low_bits);
    const auto samples = samples_of(pixels, angles, gains, intensity, efficiency, n);
    const auto add = [&] {
        return pm::add_signals(
            samples, static_cast<int>(sums.shape(1)),
            {filtered.data(), data.data(), weight, length(n), static_cast<int>(width)}, scale, low_bits,
            {sums.data(), gap_sums.data(), length(sums.shape(0)), length(gap_sums.shape(0))}, largest.data());
    };
    require(without_gil(add), "pixels: of the map, or gaps that there are");
}

double add_binned(In<std::int32_t> pixels, MaybeIn<std::uint32_t> angles, double intensity, double efficiency,
                  int n_stokes, In<double> signal, double weight, double weight_scale, double signal_scale,
                  int low_bits, Out<std::int64_t, 2> sums) {
    require_stokes(n_stokes, angles.has_value());
    require(length(sums.shape(1)) == pm::binned_row(n_stokes), "sums: hits, weights and words of each pixel");
    require_pixels(pixels, sums.shape(0));
    require_low_bits(low_bits);
    const auto samples = samples_of(pixels, angles, std::nullopt, intensity, efficiency, signal.shape(0));
    nb::gil_scoped_release release;
    return pm::add_binned(samples, length(signal.shape(0)), n_stokes, signal.data(), weight,
                          {weight_scale, signal_scale, low_bits}, sums.data());
}

bool zero_gaps(In<std::int32_t> pixels, double unit, Out<double, 2> signals) {
    const std::int64_t n = length(signals.shape(1));
    require(length(pixels.shape(0)) == n, "pixels: one a sample");
    nb::gil_scoped_release release;
    bool finite = true;
    for (std::size_t row = 0; row < signals.shape(0); ++row)
        finite &= pm::zero_gaps(pixels.data(), n, unit, signals.data() + static_cast<std::int64_t>(row) * n);
    return finite;
}

void chunk_means(In<double> signal, In<std::int32_t> pixels, Out<double> means, Out<std::uint8_t> valid) {
    const std::int64_t n = length(means.shape(0));
    require(valid.shape(0) == means.shape(0), "valid: one a chunk");
    require(n <= length(signal.shape(0)) / pm::kLevelChunk && signal.shape(0) == pixels.shape(0),
            "signal, pixels: of all samples of the chunks");
    pm::chunk_means(signal.data(), pixels.data(), n, means.data(), valid.data());
}

std::vector<std::int64_t> level_steps(In<double> signal, In<std::int32_t> pixels, double times,
                                      std::int64_t fewest) {
    require(pixels.shape(0) == signal.shape(0), "pixels: one a sample");
    nb::gil_scoped_release release;
    return pm::level_steps(signal.data(), pixels.data(), length(signal.shape(0)), {times, fewest});
}

// A block of one stream, whose inputs have these pixels.
const pm::Block& stream_block(const In<std::int64_t>& block, const In<std::int32_t>& pixels) {
    const auto& one = block_of(block);
    require(length(pixels.shape(0)) == one.n_in, "pixels: of the inputs of the block");
    require_outputs(one);
    require(one.stream >= 0 && one.stream < std::numeric_limits<std::int32_t>::max(), "block: its stream");
    require(std::abs(one.first) <= std::int64_t{1} << 53, "block: its first sample");
    return one;
}

// So many pixels as the largest number says.
std::int64_t pixels_seen(const In<std::int32_t>& pixels) {
    const std::int32_t* first = pixels.data();
    const std::int32_t* last = first + pixels.shape(0);
    return first == last ? 0 : std::max<std::int64_t>(0, *std::max_element(first, last) + std::int64_t{1});
}

void add_template_signals(const TemplateTable& templates, In<std::int64_t> block, In<std::int32_t> pixels,
                          In<double, 2> filtered, double scale, int low_bits, Out<std::int64_t, 3> sums) {
    const auto& one = stream_block(block, pixels);
    require_low_bits(low_bits);
    const std::size_t width = filtered.shape(0);
    require(is_width(width) && sums.shape(1) == 2 && sums.shape(2) == width, "two words of each column");
    require(length(filtered.shape(1)) == one.n_out, "filtered: the outputs of the block");
    const TemplateView view(&templates, length(sums.shape(0)), pixels_seen(pixels), one.stream + 1);
    nb::gil_scoped_release release;
    pm::add_template_signals(*view.get(), one, {pixels.data(), nullptr, nullptr, 1, 1}, filtered.data(),
                             static_cast<int>(width), scale, low_bits, sums.data());
}

void scan_templates(const TemplateTable& templates, In<std::int64_t> block, In<std::int32_t> pixels,
                    In<double> amplitudes, std::int64_t begin, Out<double> time) {
    const auto& one = stream_block(block, pixels);
    const std::int64_t n = length(time.shape(0));
    require(begin >= 0 && n <= one.n_in && begin <= one.n_in - n, "begin, time: inputs of the block");
    const TemplateView view(&templates, length(amplitudes.shape(0)), pixels_seen(pixels), one.stream + 1);
    nb::gil_scoped_release release;
    pm::scan_templates(*view.get(), one, {pixels.data(), nullptr, nullptr, 1, 1}, amplitudes.data(), begin, n,
                       time.data());
}

void settle_words(In<std::int64_t, 5> words, double unit, int low_bits, Out<double, 4> values,
                  int n_threads) {
    const std::size_t rows = words.shape(1) * words.shape(2), n_values = values.shape(0),
                      width = words.shape(4);
    require(words.shape(3) == 2 * n_values, "words: two of each value");
    require(
        values.shape(1) == words.shape(1) && values.shape(2) == words.shape(2) && values.shape(3) == width,
        "values: one of each row");
    require_low_bits(low_bits);
    require_threads(n_threads);
    nb::gil_scoped_release release;
    pm::settle_words(words.data(), static_cast<int>(words.shape(0)), length(rows), static_cast<int>(n_values),
                     static_cast<int>(width), unit, low_bits, values.data(), n_threads);
}

void scan(In<std::int32_t> pixels, MaybeIn<std::uint32_t> angles, MaybeIn<float> gains, double intensity,
          double efficiency, In<double, 2> map, In<double> gaps, Out<double> time) {
    require_stokes(length(map.shape(1)), angles.has_value());
    const int n_stokes = static_cast<int>(map.shape(1));
    require_pixels(pixels, map.shape(0), gaps.shape(0));
    const auto samples = samples_of(pixels, angles, gains, intensity, efficiency, time.shape(0));
    nb::gil_scoped_release release;
    pm::scan(samples, length(time.shape(0)), n_stokes, map.data(), gaps.data(), time.data());
}

void localize(const pm::PixelIndex& index, MaybeIn<std::uint8_t> flags, Out<std::int32_t> pixels) {
    require(!flags || flags->shape(0) == pixels.shape(0), "flags: one for each of the pixels");
    require(index.is_numbered(), "index: numbered");
    require_pixels(pixels, static_cast<std::size_t>(index.n_pix()));
    nb::gil_scoped_release release;
    pm::localize(index, data_or_null(flags), length(pixels.shape(0)), pixels.data());
}

void number_gaps(std::int64_t gap_length, std::int64_t position, std::int64_t base,
                 Out<std::int32_t> pixels) {
    require(gap_length >= 0, "gap_length: 0 or more");
    require(position >= 0, "position: 0 or more");
    nb::gil_scoped_release release;
    pm::number_gaps(gap_length, position, base, length(pixels.shape(0)), pixels.data());
}

void renumber(In<std::int32_t> table, Out<std::int32_t> pixels) {
    require_pixels(pixels, table.shape(0));
    nb::gil_scoped_release release;
    for (std::size_t i = 0; i < pixels.shape(0); ++i)
        if (pixels.data()[i] >= 0) pixels.data()[i] = table.data()[pixels.data()[i]];
}

void make_index(pm::PixelIndex* made, std::int64_t n_pix) {
    require(n_pix >= 0 && n_pix <= std::numeric_limits<std::int32_t>::max(), "n_pix: 0 to 2^31 - 1");
    new (made) pm::PixelIndex(n_pix);
}

void mark(pm::PixelIndex& index, In<std::int32_t> pixels) {
    require_pixels(pixels, static_cast<std::size_t>(index.n_pix()));
    nb::gil_scoped_release release;
    index.mark(pixels.data(), pixels.shape(0));
}

void remove_pixel(pm::PixelIndex& index, std::int64_t pixel) {
    require(pixel >= 0 && pixel < index.n_pix(), "pixel: of the index");
    index.remove(pixel);
}

void write_keys(const pm::PixelIndex& index, Out<std::int64_t> keys) {
    require(index.is_numbered(), "index: numbered");
    require(length(keys.shape(0)) == index.n_local(), "a key a pixel");
    index.keys(keys.data());
}

// What is in the tables of samples is kept as long as they are.
void bind_tables(nb::module_& module) {
    nb::class_<PsiTable>(module, "PsiTable")
        .def(nb::init<std::vector<In<double>>, In<std::int64_t, 2>>(), nb::arg("rows"),
             nb::arg("streams").noconvert());
    nb::class_<KeptTable>(module, "KeptTable")
        .def(nb::init<In<std::int64_t, 2>, In<std::int32_t>, MaybeIn<std::uint32_t>, MaybeIn<float>,
                      In<double, 2>, In<std::int64_t>, const PsiTable*, MaybeIn<std::int64_t>>(),
             nb::arg("blocks").noconvert(), nb::arg("pixels").noconvert(),
             nb::arg("angles").noconvert().none(), nb::arg("gains").noconvert().none(),
             nb::arg("responses").noconvert(), nb::arg("turns").noconvert(),
             nb::arg("psi").none() = nb::none(), nb::arg("partners").noconvert().none() = nb::none(),
             nb::keep_alive<1, 8>())
        .def_prop_ro("n_pairs", &KeptTable::n_pairs);
    nb::class_<ExpandedTable>(module, "ExpandedTable")
        .def(nb::init<In<std::int64_t, 2>, std::vector<PointingArguments>, In<double>, const pm::PixelIndex&,
                      In<std::int64_t, 2>, In<double, 2>, MaybeIn<std::uint8_t>, In<std::int64_t>,
                      std::int64_t, const PartTable*, MaybeIn<std::int64_t>>(),
             nb::arg("blocks").noconvert(), nb::arg("pointings"), nb::arg("grid").noconvert(),
             nb::arg("index"), nb::arg("streams").noconvert(), nb::arg("responses").noconvert(),
             nb::arg("gap_bits").noconvert().none(), nb::arg("first_slots").noconvert(),
             nb::arg("gap_length"), nb::arg("parts").none() = nb::none(),
             nb::arg("partners").noconvert().none() = nb::none(), nb::keep_alive<1, 5>(),
             nb::keep_alive<1, 11>())
        .def_prop_ro("n_pairs", &ExpandedTable::n_pairs)
        .def("expand", &ExpandedTable::expand, nb::arg("number"), nb::arg("pixels").noconvert(),
             nb::arg("angles").noconvert().none());
}

template <class Table>
void bind_passes(nb::module_& module) {
    module.def("sum_weights",
               bindings::apart(
                   +[](const Table& samples, int n_stokes, In<double> weights, double scale,
                       Out<std::int64_t, 3> sums) { sum_weights(samples, n_stokes, weights, scale, sums); }),
               nb::arg("samples"), nb::arg("n_stokes"), nb::arg("weights").noconvert(), nb::arg("scale"),
               nb::arg("sums").noconvert());
    module.def("apply",
               bindings::apart(+[](const Table& samples, const Kernels& kernels, In<double, 3> map,
                                   In<double, 2> gaps, In<double> scales, Out<std::int64_t, 4> sums,
                                   Out<std::int64_t, 3> gap_sums, const TemplateTable* templates,
                                   const JointTable* joint, std::optional<std::int64_t> n_threads) {
                   apply(samples, kernels, map, gaps, scales, sums, gap_sums, templates, joint,
                         n_threads.value_or(length(sums.shape(0))));
               }),
               nb::arg("samples"), nb::arg("kernels"), nb::arg("map").noconvert(),
               nb::arg("gaps").noconvert(), nb::arg("scales").noconvert(), nb::arg("sums").noconvert(),
               nb::arg("gap_sums").noconvert(), nb::arg("templates").none() = nb::none(),
               nb::arg("joint").none() = nb::none(), nb::arg("n_threads").none() = nb::none());
}

}  // namespace

NB_MODULE(_mapmaking, module) {
    nb::class_<pm::PixelIndex>(module, "PixelIndex")
        .def("__init__", make_index, nb::arg("n_pix"))
        .def_prop_ro("n_local", &pm::PixelIndex::n_local)
        .def("mark", mark, nb::arg("pixels").noconvert())
        .def("remove", remove_pixel, nb::arg("pixel"))
        .def("number", &pm::PixelIndex::number)
        .def("keys", write_keys, nb::arg("out").noconvert());
    nb::class_<Kernels>(module, "Kernels")
        .def(nb::init<In<double, 2>, std::size_t>(), nb::arg("lags").noconvert(), nb::arg("transform"))
        .def_prop_ro("n", &Kernels::n);
    nb::class_<TemplateTable>(module, "TemplateTable")
        .def(nb::init<std::vector<TermArguments>, In<std::int64_t, 2>, In<std::int64_t>, double, double>(),
             nb::arg("terms"), nb::arg("streams").noconvert(), nb::arg("rows").noconvert(), nb::arg("scale"),
             nb::arg("sum_scale"));
    nb::class_<JointTable>(module, "JointTable")
        .def(nb::init<In<std::int64_t, 2>, In<std::int64_t>, In<std::int64_t>, In<double>, In<double>>(),
             nb::arg("groups").noconvert(), nb::arg("members").noconvert(), nb::arg("alone").noconvert(),
             nb::arg("forward").noconvert(), nb::arg("backward").noconvert());
    nb::class_<PartTable>(module, "PartTable")
        .def(nb::init<In<std::int64_t>, In<std::int64_t, 2>, std::int64_t, std::int64_t>(),
             nb::arg("firsts").noconvert(), nb::arg("runs").noconvert(), nb::arg("n_parts"), nb::arg("n_pix"))
        .def("number", &PartTable::number, nb::arg("segment"), nb::arg("start"),
             nb::arg("pixels").noconvert());
    bind_tables(module);
    bind_passes<KeptTable>(module);
    bind_passes<ExpandedTable>(module);
    module.def("filter_block", bindings::apart(filter_block), nb::arg("block").noconvert(),
               nb::arg("kernels"), nb::arg("input").noconvert(), nb::arg("time").noconvert());
    module.def("add_weights", bindings::apart(add_weights), nb::arg("pixels").noconvert(),
               nb::arg("angles").noconvert().none(), nb::arg("gains").noconvert().none(),
               nb::arg("intensity"), nb::arg("efficiency"), nb::arg("n_stokes"), nb::arg("weight"),
               nb::arg("scale"), nb::arg("sums").noconvert());
    module.def("add_binned", bindings::apart(add_binned), nb::arg("pixels").noconvert(),
               nb::arg("angles").noconvert().none(), nb::arg("intensity"), nb::arg("efficiency"),
               nb::arg("n_stokes"), nb::arg("signal").noconvert(), nb::arg("weight"), nb::arg("weight_scale"),
               nb::arg("signal_scale"), nb::arg("low_bits"), nb::arg("sums").noconvert());
    module.def("add_signals", bindings::apart(add_signals), nb::arg("pixels").noconvert(),
               nb::arg("angles").noconvert().none(), nb::arg("gains").noconvert().none(),
               nb::arg("intensity"), nb::arg("efficiency"), nb::arg("filtered").noconvert(),
               nb::arg("data").noconvert(), nb::arg("weight"), nb::arg("scale"), nb::arg("low_bits"),
               nb::arg("sums").noconvert(), nb::arg("gap_sums").noconvert(), nb::arg("largest").noconvert());
    module.attr("LEVEL_CHUNK") = pm::kLevelChunk;
    module.def("zero_gaps", bindings::apart(zero_gaps), nb::arg("pixels").noconvert(), nb::arg("unit"),
               nb::arg("signals").noconvert());
    module.def("chunk_means", bindings::apart(chunk_means), nb::arg("signal").noconvert(),
               nb::arg("pixels").noconvert(), nb::arg("means").noconvert(), nb::arg("valid").noconvert());
    module.def("level_steps", bindings::apart(level_steps), nb::arg("signal").noconvert(),
               nb::arg("pixels").noconvert(), nb::arg("times"), nb::arg("fewest"));
    module.def("add_template_signals", bindings::apart(add_template_signals), nb::arg("templates"),
               nb::arg("block").noconvert(), nb::arg("pixels").noconvert(), nb::arg("filtered").noconvert(),
               nb::arg("scale"), nb::arg("low_bits"), nb::arg("sums").noconvert());
    module.def("scan_templates", bindings::apart(scan_templates), nb::arg("templates"),
               nb::arg("block").noconvert(), nb::arg("pixels").noconvert(), nb::arg("amplitudes").noconvert(),
               nb::arg("begin"), nb::arg("time").noconvert());
    module.def("settle_words", bindings::apart(settle_words), nb::arg("words").noconvert(), nb::arg("unit"),
               nb::arg("low_bits"), nb::arg("values").noconvert(), nb::arg("n_threads"));
    module.def("scan", bindings::apart(scan), nb::arg("pixels").noconvert(),
               nb::arg("angles").noconvert().none(), nb::arg("gains").noconvert().none(),
               nb::arg("intensity"), nb::arg("efficiency"), nb::arg("map").noconvert(),
               nb::arg("gaps").noconvert(), nb::arg("time").noconvert());
    module.def("localize", bindings::apart(localize), nb::arg("index"), nb::arg("flags").noconvert().none(),
               nb::arg("pixels").noconvert());
    module.def("number_gaps", bindings::apart(number_gaps), nb::arg("gap_length"), nb::arg("position"),
               nb::arg("base"), nb::arg("pixels").noconvert());
    module.def("renumber", bindings::apart(renumber), nb::arg("table").noconvert(),
               nb::arg("pixels").noconvert());
    bind_gaps(module);
    bind_vectors(module);
    bind_baselines(module);
    bind_block_matrices(module);
}
