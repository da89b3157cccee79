// SPDX-License-Identifier: MIT
// Numbers as people read them: units that fit the size, separators, a fixed number of digits.
#pragma once

#include <string>

namespace swr {

// In the same way in every locale: of a program that uses swr, none is known.

/// As printf's "%.*f" in the C locale.
std::string fixed_text(double value, int decimals);

/// As printf's "%.*g" in the C locale.
std::string general_text(double value, int digits = 6);

/// `digits` significant digits without an exponent, e.g. significant_text(12.345, 3) is "12.3".
/// Digits before the decimal point are never dropped.
std::string significant_text(double value, int digits);

/// The value and how far it may be off, as a share of it: 80.15 and 0.08 as "80 ± 6". All four
/// digits where no error is known (0).
std::string uncertain_text(double value, double relative_error);

/// 1234567 as "1,234,567".
std::string grouped_text(long long value);

/// 107478656 as "107.5 M"; below 10,000 every digit is kept.
std::string count_text(long long value);

/// Microseconds as "12.34 us", "1.234 ms" or "1.234 s".
std::string time_text(double time_us);

/// Bytes as "24.00 KiB", "24.00 MiB".
std::string bytes_text(long long bytes);

/// A share in whole percent, e.g. 0.25 as "25 %".
std::string percent_text(double share);
/// The same with so many significant digits, e.g. 0.2534 and 3 as "25.3 %".
std::string percent_text(double share, int digits);

/// A change from `before` to `after` in percent with its sign, e.g. "-42.0 %".
std::string change_text(double before, double after);

}  // namespace swr
