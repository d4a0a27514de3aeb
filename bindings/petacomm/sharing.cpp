// petacomm.sharing._sharing: finding out which ranks hold and own which keys.
#include "../arrays.h"
#include "petacomm/sharing/holders.h"
#include "petacomm/sharing/key_chunks.h"
#include "petacomm/sharing/pack.h"

namespace nb = nanobind;
using namespace bindings;

namespace {

const petacomm::Chunk* chunks_of(const In<std::int64_t, 2>& rows) {
    require(rows.shape(1) == 2, "a chunk is a number and a mask");
    return reinterpret_cast<const petacomm::Chunk*>(rows.data());
}

petacomm::Chunk* chunks_of(const Out<std::int64_t, 2>& rows) {
    require(rows.shape(1) == 2, "a chunk is a number and a mask");
    return reinterpret_cast<petacomm::Chunk*>(rows.data());
}

std::int64_t keys_of(const In<std::int64_t, 2>& rows) {
    return petacomm::count_keys(chunks_of(rows), rows.shape(0));
}

void bind_chunks(nb::module_& module) {
    module.def("count_chunks", bindings::apart(+[](In<std::int64_t> keys) {
                   return petacomm::count_chunks(keys.data(), keys.shape(0));
               }),
               nb::arg("keys").noconvert());
    module.def("chunk_keys", bindings::apart(+[](In<std::int64_t> keys, Out<std::int64_t, 2> chunks) {
                   require(
                       petacomm::chunk_keys(keys.data(), keys.shape(0), chunks_of(chunks), chunks.shape(0)),
                       "chunks: room for those of all keys");
               }),
               nb::arg("keys").noconvert(), nb::arg("chunks").noconvert());
    module.def("key_offsets", bindings::apart(+[](In<std::int64_t, 2> chunks, Out<std::int64_t> offsets) {
                   require(offsets.shape(0) == chunks.shape(0) + 1, "an offset for each chunk, and the end");
                   petacomm::key_offsets(chunks_of(chunks), chunks.shape(0), offsets.data());
               }),
               nb::arg("chunks").noconvert(), nb::arg("offsets").noconvert());
    module.def("unchunk_keys", bindings::apart(+[](In<std::int64_t, 2> chunks, Out<std::int64_t> keys) {
                   require(keys_of(chunks) <= length(keys.shape(0)), "keys: room for those of all chunks");
                   petacomm::unchunk_keys(chunks_of(chunks), chunks.shape(0), keys.data());
               }),
               nb::arg("chunks").noconvert(), nb::arg("keys").noconvert());
    module.def("unite_chunks",
               bindings::apart(
                   +[](In<std::int64_t, 2> chunks, Out<std::int32_t> groups, Out<std::int64_t, 2> united) {
                       require(groups.shape(0) == chunks.shape(0), "a group for each chunk");
                       require(united.shape(0) == chunks.shape(0), "room for every chunk");
                       return petacomm::unite_chunks(chunks_of(chunks), chunks.shape(0), groups.data(),
                                                     chunks_of(united));
                   }),
               nb::arg("chunks").noconvert(), nb::arg("groups").noconvert(), nb::arg("united").noconvert());
    module.def("places_of_keys",
               bindings::apart(+[](In<std::int64_t, 2> chunks, In<std::int32_t> groups,
                                   In<std::int64_t, 2> united, Out<std::int32_t> places) {
                   require(groups.shape(0) == chunks.shape(0), "groups: one for each chunk");
                   require(all_within(groups, 0, length(united.shape(0))), "groups: among the united chunks");
                   require(keys_of(chunks) <= length(places.shape(0)), "places: room for one of each key");
                   petacomm::places_of_keys(chunks_of(chunks), groups.data(), chunks.shape(0),
                                            chunks_of(united), united.shape(0), places.data());
               }),
               nb::arg("chunks").noconvert(), nb::arg("groups").noconvert(), nb::arg("united").noconvert(),
               nb::arg("places").noconvert());
}

void bind_sharing(nb::module_& module) {
    module.def("counting_order",
               bindings::apart(+[](In<std::int32_t> labels, std::int64_t n_labels, Out<std::int32_t> order,
                                   Out<std::int64_t> offsets) {
                   require(order.shape(0) == labels.shape(0), "an index for each label");
                   require(n_labels >= 0 && length(offsets.shape(0)) - 1 == n_labels,
                           "offsets: one for each label, and the end");
                   require(petacomm::counting_order(labels.data(), labels.shape(0), n_labels, order.data(),
                                                    offsets.data()),
                           "labels: below n_labels");
               }),
               nb::arg("labels").noconvert(), nb::arg("n_labels"), nb::arg("order").noconvert(),
               nb::arg("offsets").noconvert());
    module.def(
        "expand_groups",
        bindings::apart(+[](In<std::int32_t> groups, In<std::int64_t> offsets, Out<std::int32_t> positions) {
            require(are_offsets(offsets, std::int64_t{1} << 31), "offsets: of groups of positions");
            require(all_within(groups, 0, length(offsets.shape(0)) - 1), "groups: that have offsets");
            std::int64_t n = 0;
            for (std::size_t i = 0; i < groups.shape(0); ++i) {
                const std::int64_t* own = offsets.data() + groups.data()[i];
                n += own[1] - own[0];
            }
            require(n <= length(positions.shape(0)), "positions: room for those of all groups");
            petacomm::expand_groups(groups.data(), groups.shape(0), offsets.data(), positions.data());
        }),
        nb::arg("groups").noconvert(), nb::arg("offsets").noconvert(), nb::arg("positions").noconvert());
    module.def("find_sorted",
               bindings::apart(+[](In<std::int64_t> sorted, In<std::int64_t> queries,
                                   Out<std::int32_t> places, int n_threads) {
                   require(places.shape(0) == queries.shape(0), "places: one for each query");
                   require_threads(n_threads);
                   nanobind::gil_scoped_release release;
                   petacomm::find_sorted(sorted.data(), sorted.shape(0), queries.data(), queries.shape(0),
                                         places.data(), n_threads);
               }),
               nb::arg("sorted").noconvert(), nb::arg("queries").noconvert(), nb::arg("places").noconvert(),
               nb::arg("n_threads"));
    module.def(
        "mark_holders",
        bindings::apart(+[](In<std::int32_t> places, In<std::int64_t> offsets, Out<std::int64_t, 2> masks) {
            require(are_offsets(offsets, length(places.shape(0))), "offsets: of lists of places");
            require(all_within(places, 0, length(masks.shape(0))), "places: rows of the masks");
            const auto n_senders = static_cast<std::int64_t>(offsets.shape(0)) - 1;
            require(n_senders <= 64 * static_cast<std::int64_t>(masks.shape(1)), "a bit for each sender");
            require(offsets.data()[n_senders] == static_cast<std::int64_t>(places.shape(0)),
                    "the last offset is the number of places");
            petacomm::mark_holders(places.data(), offsets.data(), n_senders, masks.shape(1),
                                   reinterpret_cast<std::uint64_t*>(masks.data()));
        }),
        nb::arg("places").noconvert(), nb::arg("offsets").noconvert(), nb::arg("masks").noconvert());
    module.def(
        "count_holders",
        bindings::apart(+[](In<std::int32_t> places, In<std::int64_t, 2> masks, Out<std::int64_t> offsets) {
            require(places.shape(0) == masks.shape(0), "masks: a row for each place");
            require(offsets.shape(0) > 0, "offsets: one for each key, and the end");
            require(all_within(places, 0, length(offsets.shape(0)) - 1), "places: of keys with offsets");
            petacomm::count_holders(places.data(), reinterpret_cast<const std::uint64_t*>(masks.data()),
                                    places.shape(0), masks.shape(1), offsets.shape(0) - 1, offsets.data());
        }),
        nb::arg("places").noconvert(), nb::arg("masks").noconvert(), nb::arg("offsets").noconvert());
    module.def(
        "list_holders",
        bindings::apart(+[](In<std::int32_t> places, In<std::int64_t, 2> masks,
                            In<std::int64_t> entry_offsets, In<std::int32_t> senders, In<std::int32_t> firsts,
                            In<std::int32_t> members, In<std::int64_t> offsets, Out<std::int32_t> holders) {
            const std::int64_t n_senders = length(firsts.shape(0));
            require(places.shape(0) == masks.shape(0), "masks: a row for each place");
            require(length(entry_offsets.shape(0)) == n_senders + 1 &&
                        are_offsets(entry_offsets, length(places.shape(0))),
                    "entry_offsets: of the places of each sender");
            require(all_within(senders, 0, n_senders), "senders: that have firsts");
            require(all_within(firsts, 0, length(members.shape(0)) + 1), "firsts: among the members");
            require(are_offsets(offsets, length(holders.shape(0))) &&
                        offsets.data()[offsets.shape(0) - 1] == length(holders.shape(0)),
                    "offsets: of lists of holders, the last one their number");
            require(all_within(places, 0, length(offsets.shape(0)) - 1), "places: of keys with offsets");
            const bool fits = petacomm::list_holders(
                places.data(), reinterpret_cast<const std::uint64_t*>(masks.data()), masks.shape(1),
                entry_offsets.data(), senders.data(), senders.shape(0), firsts.data(), members.data(),
                members.shape(0), offsets.data(), offsets.shape(0) - 1, holders.data());
            require(fits, "masks: of members, and of as many as the offsets say");
        }),
        nb::arg("places").noconvert(), nb::arg("masks").noconvert(), nb::arg("entry_offsets").noconvert(),
        nb::arg("senders").noconvert(), nb::arg("firsts").noconvert(), nb::arg("members").noconvert(),
        nb::arg("offsets").noconvert(), nb::arg("holders").noconvert());
    module.def(
        "choose_owners",
        bindings::apart(+[](In<std::int64_t> keys, In<std::int64_t> offsets, In<std::int32_t> holders,
                            In<std::int32_t> weights, Out<std::int32_t> owners) {
            require(offsets.shape(0) == keys.shape(0) + 1, "offsets: one for each key, and the end");
            require(owners.shape(0) == keys.shape(0), "owners: one for each key");
            require(all_within(weights, 1, std::int64_t{1} << 31), "weights: positive");
            require(petacomm::choose_owners(keys.data(), offsets.data(), holders.data(), holders.shape(0),
                                            keys.shape(0), weights.data(), weights.shape(0), owners.data()),
                    "offsets, holders: a rank or more that has a weight for each key");
        }),
        nb::arg("keys").noconvert(), nb::arg("offsets").noconvert(), nb::arg("holders").noconvert(),
        nb::arg("weights").noconvert(), nb::arg("owners").noconvert());
    module.def(
        "tally_owners",
        bindings::apart(+[](In<std::int64_t> offsets, In<std::int32_t> holders, In<std::int32_t> owners,
                            Out<std::int64_t, 2> tallies) {
            require(offsets.shape(0) == owners.shape(0) + 1, "offsets: one for each key, and the end");
            require(are_offsets(offsets, length(holders.shape(0))), "offsets: of lists of holders");
            require(all_within(holders, 0, length(tallies.shape(0))), "holders: ranks that have tallies");
            require(all_within(owners, 0, length(tallies.shape(0))), "owners: ranks that have tallies");
            require(tallies.shape(1) == sizeof(petacomm::Tally) / sizeof(std::int64_t),
                    "the columns of a tally");
            petacomm::tally_owners(offsets.data(), holders.data(), owners.data(), owners.shape(0),
                                   reinterpret_cast<petacomm::Tally*>(tallies.data()));
        }),
        nb::arg("offsets").noconvert(), nb::arg("holders").noconvert(), nb::arg("owners").noconvert(),
        nb::arg("tallies").noconvert());
}

template <typename T>
void bind_indexed(nb::module_& module) {
    module.def(
        "pack",
        bindings::apart(+[](In<T, 2> values, In<std::int32_t> positions, Out<T, 2> out, int n_threads) {
            require(out.shape(0) == positions.shape(0), "a row of out for each position");
            require(out.shape(1) == values.shape(1), "out: rows as long as those of the values");
            require_threads(n_threads);
            require(without_gil([&] {
                        return petacomm::pack(values.data(), values.shape(0), positions.data(),
                                              positions.shape(0), values.shape(1), out.data(), n_threads);
                    }),
                    "positions: rows of the values");
        }),
        nb::arg("values").noconvert(), nb::arg("positions").noconvert(), nb::arg("out").noconvert(),
        nb::arg("n_threads"));
    module.def(
        "unpack",
        bindings::apart(+[](In<T, 2> buffer, In<std::int32_t> positions, Out<T, 2> values, int n_threads) {
            require(buffer.shape(0) == positions.shape(0), "a row of the buffer for each position");
            require(buffer.shape(1) == values.shape(1), "buffer: rows as long as those of the values");
            require_threads(n_threads);
            require(without_gil([&] {
                        return petacomm::unpack(buffer.data(), positions.data(), positions.shape(0),
                                                values.shape(1), values.data(), values.shape(0), n_threads);
                    }),
                    "positions: rows of the values");
        }),
        nb::arg("buffer").noconvert(), nb::arg("positions").noconvert(), nb::arg("values").noconvert(),
        nb::arg("n_threads"));
}

}  // namespace

NB_MODULE(_sharing, module) {
    bind_chunks(module);
    bind_sharing(module);
    bind_indexed<std::int64_t>(module);
    bind_indexed<double>(module);
    bind_indexed<float>(module);
    bind_indexed<std::uint8_t>(module);
}
