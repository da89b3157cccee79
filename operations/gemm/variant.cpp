// SPDX-License-Identifier: MIT
#include "core/axis_builders.h"
#include "core/operation.h"
#include <swr/gemm_variant.h>

namespace swr {
namespace {

using namespace std::string_view_literals;

constexpr std::array kKOrders{"cyclic"sv, "sawtooth"sv};
constexpr std::array kGemmPersistences{"grid"sv, "persistent"sv};
constexpr std::array kRasters{"along_n"sv, "along_m"sv, "grouped"sv, "serpentine"sv, "hilbert"sv};
constexpr std::array kMainloops{"cooperative"sv, "pingpong"sv};

constexpr std::array kAxes{
    enum_axis<&GemmVariant::family>("family", "Kernel family.", kFamilies),
    integer_axis<&GemmVariant::tile_m, 16, 256>("tile_m", "Rows of C per tile."),
    integer_axis<&GemmVariant::tile_n, 16, 256>("tile_n", "Columns of C per tile."),
    integer_axis<&GemmVariant::tile_k, 32, 128>("tile_k", "Columns of k per step."),
    integer_axis<&GemmVariant::stages, 2, 16>("stages", "Tiles of A and B in shared memory."),
    integer_axis<&GemmVariant::warps_m, 1, 8>("warps_m", "Warps along m.", Family::portable),
    integer_axis<&GemmVariant::warps_n, 1, 8>("warps_n", "Warps along n.", Family::portable),
    enum_axis<&GemmVariant::mainloop>("mainloop", "How consumers share tiles.", kMainloops,
                                      Family::hopper),
    integer_axis<&GemmVariant::consumers, 1, 2>("consumers", "Computing warpgroups.",
                                                Family::hopper),
    integer_axis<&GemmVariant::cluster_m, 1, 2>("cluster_m", "CTAs that share tiles of B.",
                                                Family::hopper),
    integer_axis<&GemmVariant::cluster_n, 1, 2>("cluster_n", "CTAs that share tiles of A.",
                                                Family::hopper),
    integer_axis<&GemmVariant::cluster_k, 1, 8>(
        "cluster_k", "CTAs that sum a tile in shared memory.", Family::hopper),
    enum_axis<&GemmVariant::persistence>("persistence", "How tiles are handed to CTAs.",
                                         kGemmPersistences),
    integer_axis<&GemmVariant::workers, 0, 1 << 20>("workers",
                                                    "CTAs of a persistent launch; 0: all slots."),
    enum_axis<&GemmVariant::k_order>("k_order", "Direction in which tiles walk k.", kKOrders),
    integer_axis<&GemmVariant::splits, 1, 64>("splits", "Parts of k summed by different CTAs."),
    enum_axis<&GemmVariant::raster>("raster", "Order of tiles inside a column group.", kRasters),
    integer_axis<&GemmVariant::raster_group, 1, 1024>("raster_group", "Rows of clusters per band."),
    integer_axis<&GemmVariant::swizzle_stride, 0, 1 << 24>(
        "swizzle_stride", "Elements of n per column group; 0: off."),
};

}  // namespace

std::span<const Axis> gemm_axes() { return kAxes; }

std::string_view to_string(Raster value) { return enum_text(kRasters, value); }
std::string_view to_string(GemmMainloop value) { return enum_text(kMainloops, value); }

}  // namespace swr
