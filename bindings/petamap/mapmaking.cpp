#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <utility>
#include <vector>

#include "../arrays.h"
#include "baseline_functions.h"
#include "joint_views.h"
#include "part_views.h"
#include "petamap/mapmaking/bin.h"
#include "petamap/mapmaking/binned_sums.h"
#include "petamap/mapmaking/gaps.h"
#include "petamap/mapmaking/normal.h"
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

std::span<const pm::Block> blocks_of(const In<std::int64_t, 2>& blocks) {
    static_assert(sizeof(pm::Block) == 6 * sizeof(std::int64_t));
    require(blocks.shape(1) == 6, "6 numbers a block");
    return {reinterpret_cast<const pm::Block*>(blocks.data()), blocks.shape(0)};
}

// The vectors that P^T N^-1 P is applied to, and what is added up, checked.
pm::Maps maps_of(const In<double, 3>& map, const In<double, 2>& gaps, const In<double>& scales,
                 Out<std::int64_t, 4>& sums, Out<std::int64_t, 3>& gap_sums) {
    const std::size_t width = map.shape(2);
    require(is_width(width) && gaps.shape(1) == width && scales.shape(0) == width, "1, 2, 4 or 8 columns");
    require(sums.shape(3) == width && gap_sums.shape(2) == width, "sums of each column");
    require(sums.shape(1) == map.shape(0) && sums.shape(2) == map.shape(1), "a word a Stokes parameter");
    require(gap_sums.shape(1) == gaps.shape(0), "a sum an unknown");
    require(gap_sums.shape(0) == sums.shape(0) || gap_sums.shape(0) == 1, "sums of each thread, or of all");
    return {map.data(),
            gaps.data(),
            sums.data(),
            gap_sums.data(),
            scales.data(),
            length(map.shape(0)),
            length(gaps.shape(0)),
            static_cast<int>(map.shape(1)),
            static_cast<int>(width),
            static_cast<int>(sums.shape(0)),
            gap_sums.shape(0) > 1};
}

void apply_kept(In<std::int64_t, 2> blocks, In<std::int32_t> pixels, MaybeIn<std::uint32_t> angles,
                MaybeIn<float> gains, In<double, 2> responses, const Kernels& kernels, In<double, 3> map,
                In<double, 2> gaps, In<double> scales, Out<std::int64_t, 4> sums,
                Out<std::int64_t, 3> gap_sums, const TemplateTable* templates, const JointTable* joint) {
    auto maps = maps_of(map, gaps, scales, sums, gap_sums);
    const auto all = blocks_of(blocks);
    const TemplateView view(templates, maps.n_gaps, maps.n_local);
    maps.templates = view.get();
    const JointView joint_view(joint, all, kernels.n());
    maps.joint = joint_view.get();
    require(responses.shape(1) == 2, "intensity and efficiency of each stream");
    require(maps.n_stokes == 1 || angles, "polarization needs angles");
    const pm::KeptSamples source{pixels.data(), data_or_null(angles), data_or_null(gains), responses.data()};
    nb::gil_scoped_release release;
    pm::apply_normal(all, source, kernels.view(), maps);
}

void apply_expanded(In<std::int64_t, 2> blocks, nb::typed<nb::list, PointingArguments> pointings,
                    In<double> grid, const pm::PixelIndex& index, In<std::int64_t, 2> streams,
                    In<double, 2> responses, MaybeIn<std::uint8_t> gap_bits, In<std::int64_t> first_slots,
                    std::int64_t gap_length, const Kernels& kernels, In<double, 3> map, In<double, 2> gaps,
                    In<double> scales, Out<std::int64_t, 4> sums, Out<std::int64_t, 3> gap_sums,
                    const TemplateTable* templates, const JointTable* joint, const PartTable* parts) {
    static_assert(sizeof(pm::ExpandedSamples::Stream) == 6 * sizeof(std::int64_t));
    require(streams.shape(1) == 6 && streams.shape(0) == responses.shape(0), "6 numbers a stream");
    require(responses.shape(1) == 2, "intensity and efficiency of each stream");
    require(first_slots.shape(0) == blocks.shape(0), "a slot a block");
    auto maps = maps_of(map, gaps, scales, sums, gap_sums);
    const auto all = blocks_of(blocks);
    const TemplateView view(templates, maps.n_gaps, maps.n_local);
    maps.templates = view.get();
    const JointView joint_view(joint, all, kernels.n());
    maps.joint = joint_view.get();
    std::vector<petamap::pointing::CompressedPointing> views;
    for (nb::handle pointing : pointings)
        views.push_back(compressed_pointing(nb::cast<PointingArguments>(pointing)));
    if (parts) require(parts->n_segments() == length(streams.shape(0)), "parts of each stream");
    const auto part_view = parts ? std::optional{parts->view()} : std::nullopt;
    const pm::ExpandedSamples source{
        views,
        petamap::sky::Grid::from(grid.data(), grid.shape(0)),
        &index,
        {reinterpret_cast<const pm::ExpandedSamples::Stream*>(streams.data()), streams.shape(0)},
        responses.data(),
        data_or_null(gap_bits),
        first_slots.data(),
        gap_length,
        maps.n_stokes > 1,
        part_view ? &*part_view : nullptr};
    nb::gil_scoped_release release;
    pm::apply_normal(all, source, kernels.view(), maps);
}

const pm::Block& block_of(const In<std::int64_t>& block) {
    require(block.shape(0) == 6, "6 numbers a block");
    return *reinterpret_cast<const pm::Block*>(block.data());
}

void filter_block(In<std::int64_t> block, const Kernels& kernels, In<double, 2> input, Out<double, 2> time) {
    const auto& one = block_of(block);
    require(length(input.shape(1)) == one.n_in && length(time.shape(1)) == one.n_out, "the block's lengths");
    require(input.shape(0) == time.shape(0), "as many outputs as inputs");
    nb::gil_scoped_release release;
    pm::filter_block(one, kernels.view(), input.data(), static_cast<int>(input.shape(0)), time.data());
}

void add_hits(In<std::int32_t> pixels, bool shared, Out<std::int64_t> hits) {
    nb::gil_scoped_release release;
    pm::add_hits({pixels.data(), nullptr, nullptr, 1, 1}, 0, length(pixels.shape(0)), shared, hits.data());
}

void add_weights(In<std::int32_t> pixels, MaybeIn<std::uint32_t> angles, MaybeIn<float> gains,
                 double intensity, double efficiency, int n_stokes, double weight, double scale, bool shared,
                 Out<std::int64_t, 2> weights) {
    require(length(weights.shape(1)) == pm::triangle(n_stokes), "the upper triangle of a matrix a pixel");
    const auto samples = samples_of(pixels, angles, gains, intensity, efficiency, pixels.shape(0));
    nb::gil_scoped_release release;
    pm::add_weights(samples, 0, length(pixels.shape(0)), n_stokes, weight, scale, shared, weights.data());
}

void add_signals(In<std::int32_t> pixels, MaybeIn<std::uint32_t> angles, MaybeIn<float> gains,
                 double intensity, double efficiency, In<double, 2> filtered, In<double, 2> weighted,
                 double scale, int low_bits, Out<std::int64_t, 4> sums, Out<std::int64_t, 3> gap_sums,
                 Out<double> largest) {
    const std::size_t width = filtered.shape(0), n = filtered.shape(1);
    require(is_width(width) && largest.shape(0) == width, "1, 2, 4 or 8 columns");
    require(weighted.shape(0) == width && weighted.shape(1) == n, "two values a sample");
    require(sums.shape(2) == 4 && gap_sums.shape(1) == 2, "two words of two values a pixel, of one a gap");
    require(sums.shape(3) == width && gap_sums.shape(2) == width, "sums of each column");
    const auto samples = samples_of(pixels, angles, gains, intensity, efficiency, n);
    nb::gil_scoped_release release;
    pm::add_signals(samples, static_cast<int>(sums.shape(1)),
                    {filtered.data(), weighted.data(), length(n), static_cast<int>(width)}, scale, low_bits,
                    sums.data(), gap_sums.data(), largest.data());
}

double add_binned(In<std::int32_t> pixels, MaybeIn<std::uint32_t> angles, double intensity, double efficiency,
                  int n_stokes, In<double> signal, double weight, double weight_scale, double signal_scale,
                  int low_bits, Out<std::int64_t, 2> sums) {
    require(length(sums.shape(1)) == pm::binned_row(n_stokes), "hits, weights and words of each pixel");
    const auto samples = samples_of(pixels, angles, std::nullopt, intensity, efficiency, signal.shape(0));
    nb::gil_scoped_release release;
    return pm::add_binned(samples, length(signal.shape(0)), n_stokes, signal.data(), weight,
                          {weight_scale, signal_scale, low_bits}, sums.data());
}

// So many pixels as the largest number says.
std::int64_t pixels_seen(const In<std::int32_t>& pixels) {
    const std::int32_t* first = pixels.data();
    const std::int32_t* last = first + pixels.shape(0);
    return first == last ? 0 : std::max<std::int64_t>(0, *std::max_element(first, last) + std::int64_t{1});
}

void add_template_signals(const TemplateTable& templates, In<std::int64_t> block, In<std::int32_t> pixels,
                          In<double, 2> filtered, double scale, int low_bits, Out<std::int64_t, 3> sums) {
    const auto& one = block_of(block);
    const std::size_t width = filtered.shape(0);
    require(is_width(width) && sums.shape(1) == 2 && sums.shape(2) == width, "two words of each column");
    require(length(filtered.shape(1)) == one.n_out && length(pixels.shape(0)) == one.n_in,
            "the block's lengths");
    const TemplateView view(&templates, length(sums.shape(0)), pixels_seen(pixels));
    nb::gil_scoped_release release;
    pm::add_template_signals(*view.get(), one, {pixels.data(), nullptr, nullptr, 1, 1}, filtered.data(),
                             static_cast<int>(width), scale, low_bits, sums.data());
}

void scan_templates(const TemplateTable& templates, In<std::int64_t> block, In<std::int32_t> pixels,
                    In<double> amplitudes, std::int64_t begin, Out<double> time) {
    const auto& one = block_of(block);
    const std::int64_t n = length(time.shape(0));
    require(length(pixels.shape(0)) == one.n_in && begin >= 0 && begin + n <= one.n_in,
            "the block's lengths");
    const TemplateView view(&templates, length(amplitudes.shape(0)), pixels_seen(pixels));
    nb::gil_scoped_release release;
    pm::scan_templates(*view.get(), one, {pixels.data(), nullptr, nullptr, 1, 1}, amplitudes.data(), begin, n,
                       time.data());
}

void settle_words(In<std::int64_t, 4> words, double unit, int low_bits, Out<double, 3> first,
                  Out<double, 3> second, int n_threads) {
    const std::size_t rows = words.shape(0) * words.shape(1), n = rows * words.shape(3);
    require(words.shape(2) == 4 && first.size() == n && second.size() == n, "two words of two values a row");
    nb::gil_scoped_release release;
    pm::settle_words(words.data(), length(rows), static_cast<int>(words.shape(3)), unit, low_bits,
                     first.data(), second.data(), n_threads);
}

void scan(In<std::int32_t> pixels, MaybeIn<std::uint32_t> angles, MaybeIn<float> gains, double intensity,
          double efficiency, In<double, 2> map, In<double> gaps, Out<double> time) {
    const int n_stokes = static_cast<int>(map.shape(1));
    const auto samples = samples_of(pixels, angles, gains, intensity, efficiency, time.shape(0));
    nb::gil_scoped_release release;
    pm::scan(samples, length(time.shape(0)), n_stokes, map.data(), gaps.data(), time.data());
}

void localize(const pm::PixelIndex& index, MaybeIn<std::uint8_t> flags, Out<std::int32_t> pixels) {
    require(!flags || flags->shape(0) == pixels.shape(0), "a flag a sample");
    nb::gil_scoped_release release;
    pm::localize(index, data_or_null(flags), length(pixels.shape(0)), pixels.data());
}

void number_gaps(std::int64_t gap_length, std::int64_t position, std::int64_t base,
                 Out<std::int32_t> pixels) {
    nb::gil_scoped_release release;
    pm::number_gaps(gap_length, position, base, length(pixels.shape(0)), pixels.data());
}

void renumber(In<std::int32_t> table, Out<std::int32_t> pixels) {
    nb::gil_scoped_release release;
    for (std::size_t i = 0; i < pixels.shape(0); ++i)
        if (pixels.data()[i] >= 0) pixels.data()[i] = table.data()[pixels.data()[i]];
}

void mark(pm::PixelIndex& index, In<std::int32_t> pixels) {
    nb::gil_scoped_release release;
    index.mark(pixels.data(), pixels.shape(0));
}

void write_keys(const pm::PixelIndex& index, Out<std::int64_t> keys) {
    require(length(keys.shape(0)) == index.n_local(), "a key a pixel");
    index.keys(keys.data());
}

}  // namespace

NB_MODULE(_mapmaking, module) {
    nb::class_<pm::PixelIndex>(module, "PixelIndex")
        .def(nb::init<std::int64_t>(), nb::arg("n_pix"))
        .def_prop_ro("n_local", &pm::PixelIndex::n_local)
        .def("mark", mark, nb::arg("pixels").noconvert())
        .def("remove", &pm::PixelIndex::remove, nb::arg("pixel"))
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
    module.def("apply_kept", apply_kept, nb::arg("blocks").noconvert(), nb::arg("pixels").noconvert(),
               nb::arg("angles").noconvert().none(), nb::arg("gains").noconvert().none(),
               nb::arg("responses").noconvert(), nb::arg("kernels"), nb::arg("map").noconvert(),
               nb::arg("gaps").noconvert(), nb::arg("scales").noconvert(), nb::arg("sums").noconvert(),
               nb::arg("gap_sums").noconvert(), nb::arg("templates").none() = nb::none(),
               nb::arg("joint").none() = nb::none());
    module.def("apply_expanded", apply_expanded, nb::arg("blocks").noconvert(), nb::arg("pointings"),
               nb::arg("grid").noconvert(), nb::arg("index"), nb::arg("streams").noconvert(),
               nb::arg("responses").noconvert(), nb::arg("gap_bits").noconvert().none(),
               nb::arg("first_slots").noconvert(), nb::arg("gap_length"), nb::arg("kernels"),
               nb::arg("map").noconvert(), nb::arg("gaps").noconvert(), nb::arg("scales").noconvert(),
               nb::arg("sums").noconvert(), nb::arg("gap_sums").noconvert(),
               nb::arg("templates").none() = nb::none(), nb::arg("joint").none() = nb::none(),
               nb::arg("parts").none() = nb::none());
    module.def("filter_block", filter_block, nb::arg("block").noconvert(), nb::arg("kernels"),
               nb::arg("input").noconvert(), nb::arg("time").noconvert());
    module.def("add_hits", add_hits, nb::arg("pixels").noconvert(), nb::arg("shared"),
               nb::arg("hits").noconvert());
    module.def("add_weights", add_weights, nb::arg("pixels").noconvert(),
               nb::arg("angles").noconvert().none(), nb::arg("gains").noconvert().none(),
               nb::arg("intensity"), nb::arg("efficiency"), nb::arg("n_stokes"), nb::arg("weight"),
               nb::arg("scale"), nb::arg("shared"), nb::arg("weights").noconvert());
    module.def("add_binned", add_binned, nb::arg("pixels").noconvert(), nb::arg("angles").noconvert().none(),
               nb::arg("intensity"), nb::arg("efficiency"), nb::arg("n_stokes"),
               nb::arg("signal").noconvert(), nb::arg("weight"), nb::arg("weight_scale"),
               nb::arg("signal_scale"), nb::arg("low_bits"), nb::arg("sums").noconvert());
    module.def("add_signals", add_signals, nb::arg("pixels").noconvert(),
               nb::arg("angles").noconvert().none(), nb::arg("gains").noconvert().none(),
               nb::arg("intensity"), nb::arg("efficiency"), nb::arg("filtered").noconvert(),
               nb::arg("weighted").noconvert(), nb::arg("scale"), nb::arg("low_bits"),
               nb::arg("sums").noconvert(), nb::arg("gap_sums").noconvert(), nb::arg("largest").noconvert());
    module.def("add_template_signals", add_template_signals, nb::arg("templates"),
               nb::arg("block").noconvert(), nb::arg("pixels").noconvert(), nb::arg("filtered").noconvert(),
               nb::arg("scale"), nb::arg("low_bits"), nb::arg("sums").noconvert());
    module.def("scan_templates", scan_templates, nb::arg("templates"), nb::arg("block").noconvert(),
               nb::arg("pixels").noconvert(), nb::arg("amplitudes").noconvert(), nb::arg("begin"),
               nb::arg("time").noconvert());
    module.def("settle_words", settle_words, nb::arg("words").noconvert(), nb::arg("unit"),
               nb::arg("low_bits"), nb::arg("first").noconvert(), nb::arg("second").noconvert(),
               nb::arg("n_threads"));
    module.def("scan", scan, nb::arg("pixels").noconvert(), nb::arg("angles").noconvert().none(),
               nb::arg("gains").noconvert().none(), nb::arg("intensity"), nb::arg("efficiency"),
               nb::arg("map").noconvert(), nb::arg("gaps").noconvert(), nb::arg("time").noconvert());
    module.def("localize", localize, nb::arg("index"), nb::arg("flags").noconvert().none(),
               nb::arg("pixels").noconvert());
    module.def("number_gaps", number_gaps, nb::arg("gap_length"), nb::arg("position"), nb::arg("base"),
               nb::arg("pixels").noconvert());
    module.def("renumber", renumber, nb::arg("table").noconvert(), nb::arg("pixels").noconvert());
    bind_vectors(module);
    bind_baselines(module);
}
