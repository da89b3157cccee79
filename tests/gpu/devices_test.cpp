// SPDX-License-Identifier: MIT
#include "driver/devices.h"

#include "tests/gpu/gpu_test.h"

#include <gmock/gmock.h>

#include <set>
#include <string>

namespace swr {
namespace {

class DevicesTest : public GpuTest {};

TEST_F(DevicesTest, DescribeThemselvesCompletely) {
  for (const DeviceInfo& device : list_devices()) {
    EXPECT_NE(device.name, "");
    EXPECT_GE(device.sm_arch, 50);
    EXPECT_GE(device.sm_count, 1);
    EXPECT_GT(device.l2_bytes, 0);
    EXPECT_GE(device.dram_gb_per_s, 0.0);
    EXPECT_GE(device.smem_per_cta_bytes, 48 * 1024);
    EXPECT_GE(device.smem_per_sm_bytes, device.smem_per_cta_bytes);
    EXPECT_GE(device.registers_per_sm, 32768);
    EXPECT_GE(device.max_threads_per_sm, 1024);
    EXPECT_GE(device.max_ctas_per_sm, 16);
  }
}

TEST_F(DevicesTest, HaveDetailsThatTellThemApart) {
  std::set<std::string> bus_ids;
  const std::size_t count = list_devices().size();
  for (std::size_t i = 0; i < count; ++i) {
    const DeviceDetails details = device_details(static_cast<int>(i));
    EXPECT_THAT(details.pci_bus_id, ::testing::HasSubstr(":"));
    EXPECT_GT(details.sm_clock_khz, 0);
    EXPECT_GE(details.memory_clock_khz, 0);
    bus_ids.insert(details.pci_bus_id);
  }
  EXPECT_EQ(bus_ids.size(), count);
}

TEST_F(DevicesTest, AreTheSameOnEveryCall) {
  EXPECT_TRUE(same_device(list_devices().front(), list_devices().front()));
}

TEST_F(DevicesTest, AnH200IsRecognisedByItsNumbers) {
  const DeviceInfo device = list_devices().front();
  if (device.name.find("H200") == std::string::npos || device.mig) {
    GTEST_SKIP() << "this is a " << device.name;
  }
  EXPECT_EQ(device.sm_arch, 90);
  EXPECT_EQ(device.sm_count, 132);
  EXPECT_EQ(device.l2_bytes, 60LL << 20);
  EXPECT_NEAR(device.dram_gb_per_s, 4800.0, 150.0);
  EXPECT_EQ(device.smem_per_cta_bytes, 227 * 1024);
}

TEST_F(DevicesTest, TheDriverNamesItsVersion) {
  EXPECT_THAT(driver_version(), ::testing::MatchesRegex("[0-9]+\\.[0-9]"));
}

}  // namespace
}  // namespace swr
