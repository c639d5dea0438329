// The logarithm of the gamma function and its derivatives, in f64.
#pragma once

namespace ipu::kernels {

double log_gamma(double x);            // of its absolute value; infinite at 0, -1, -2, ...
double digamma(double x);              // the first derivative; NaN at -1, -2, ..., infinite at 0
double polygamma(double n, double x);  // derivative n + 1, for whole n from 0 on, NaN for others

}  // namespace ipu::kernels
