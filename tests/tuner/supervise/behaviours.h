// SPDX-License-Identifier: MIT
// What the test worker does for a variant: the number of workers, which no kernel depends on, names
// it. Tests and worker share this list.
#pragma once

namespace swr::test {

/// Says in the result's detail which process it ran in.
inline constexpr int kGood = 1;
/// Writes to address 0.
inline constexpr int kCrashes = 2;
inline constexpr int kHangs = 3;
/// The evaluator finds its numbers wrong.
inline constexpr int kIsWrong = 4;
/// Takes more memory than the process may have.
inline constexpr int kExhaustsMemory = 5;
/// Loses the context and damages the process, so that what follows faults as well.
inline constexpr int kFaults = 6;
/// Good at first; every variant after it faults in the same process.
inline constexpr int kDamagesTheProcess = 7;
/// Says its process id into the meeting place and waits there; good in any later process.
inline constexpr int kWaitsOnce = 8;
/// As kWaitsOnce, in every process.
inline constexpr int kWaits = 9;
/// Prints more than a pipe holds, then writes to address 0.
inline constexpr int kCrashesLoudly = 10;
/// The evaluator throws: nothing further can be evaluated.
inline constexpr int kLosesTheDevice = 11;
/// The evaluator throws in the first process, and is good in a later one.
inline constexpr int kLosesTheDeviceOnce = 12;
/// Writes what is no frame where the answer belongs.
inline constexpr int kTalksNonsense = 13;
/// Good, but crashes when it is counted or races.
inline constexpr int kCrashesWhenCounted = 14;
/// Good; its time in microseconds is how often the process was told to prepare.
inline constexpr int kTellsHowOftenItPrepared = 15;

/// What the worker does when it is told to prepare, named by the problem's batch.
inline constexpr int kCrashesWhenPrepared = 2;
/// Only the first process hangs.
inline constexpr int kHangsWhenPreparedOnce = 3;
/// Runs reference trials of variants that behave as kCrashes, kHangs, kLosesTheDevice and kGood do,
/// as long as they are not left out; evaluates only where it came to the good one.
inline constexpr int kRunsTrials = 4;

/// Arguments of the worker program: the directory of the meeting place, then perhaps one of these.
inline constexpr const char* kWithoutDevice = "without-device";
inline constexpr const char* kDiesAtStart = "dies-at-start";
/// Dies at start once a file of this name lies in the directory.
inline constexpr const char* kDiesWhenGone = "dies-when-gone";
inline constexpr const char* kGoneMark = "gone";

/// A pipe with a name in that directory, where a waiting variant says its process id. It stays open
/// for as long as the process lives.
inline constexpr const char* kMeetingPlace = "meeting";

}  // namespace swr::test
