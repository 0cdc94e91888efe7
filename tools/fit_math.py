#!/usr/bin/env python3
"""Fits the polynomials of runtime/kernels/cpu/math.h and prints their coefficients.

Weighted least squares, reweighted towards the largest error (Lawson), on Chebyshev points; then the
coefficients are rounded to float one after another from the lowest up, the others refitted each time.
"bits" is -log2 of the largest error relative to the function. Needs numpy and mpmath.
"""
import mpmath as mp
import numpy as np

mp.mp.dps = 40
POINTS = 2000


def solve(x, f, w, weight, powers, scale):
    v = np.stack([(x / scale) ** k for k in powers], 1)
    root = w * np.sqrt(weight)
    c, *_ = np.linalg.lstsq(v * root[:, None], f * root, rcond=None)
    return c / scale ** np.array(powers, float)


def fit(name, function, weight_of, terms, low, high):
    points = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (i + mp.mpf(1) / 2) / POINTS)
              for i in range(POINTS)]
    x = np.array([float(p) for p in points])
    f = np.array([float(function(p)) for p in points])
    w = np.array([float(weight_of(p)) for p in points])
    scale = max(abs(float(low)), abs(float(high)))
    weight, best, best_weight = np.ones(POINTS) / POINTS, np.inf, None
    for _ in range(60):
        c = solve(x, f, w, weight, range(terms), scale)
        error = np.abs(w * (f - np.polynomial.polynomial.polyval(x, c)))
        if error.max() < best:
            best, best_weight = error.max(), weight
        weight = weight * (error / error.max() + 1e-6)
        weight = weight / weight.sum()
    fixed = []
    for k in range(terms):
        rest = f - np.polynomial.polynomial.polyval(x, np.array(fixed + [0.0]))
        fixed.append(float(np.float32(solve(x, rest, w, best_weight, range(k, terms), scale)[0])))
    rounded = np.abs(w * (f - np.polynomial.polynomial.polyval(x, np.array(fixed)))).max()
    print(f"{name}: bits {-np.log2(best):.1f}, rounded {-np.log2(rounded):.1f}")
    print("   ", ", ".join(f"{np.float32(c):.9g}" for c in fixed))


def main():
    half = mp.log(2) / 2 * mp.mpf("1.0005")
    quarter = mp.pi / 4 * mp.mpf("1.001")
    root = mp.sqrt
    tiny = mp.mpf(10) ** -10
    fit("exp, expm1: (e^r - 1 - r) / r^2",
        lambda r: (mp.expm1(r) - r) / r ** 2 if abs(r) > tiny else mp.mpf(1) / 2,
        lambda r: abs(r ** 2 / mp.expm1(r)) if r else 0, 6, -half, half)
    fit("log: (log(1 + f) - f + f^2 / 2) / f^3",
        lambda f: (mp.log1p(f) - f + f * f / 2) / f ** 3 if abs(f) > tiny else mp.mpf(1) / 3,
        lambda f: abs(f ** 3 / mp.log1p(f)) if f else 0, 8, root(mp.mpf(1) / 2) - 1, root(2) - 1)
    fit("sin: (sin r / r - 1) / z, z = r^2", lambda z: (mp.sin(root(z)) / root(z) - 1) / z,
        lambda z: z / (mp.sin(root(z)) / root(z)), 3, mp.mpf(0), quarter ** 2)
    fit("cos: (cos r - 1 + z / 2) / z^2", lambda z: (mp.cos(root(z)) - 1 + z / 2) / z ** 2,
        lambda z: z * z / mp.cos(root(z)), 3, mp.mpf(0), quarter ** 2)
    fit("erf near: erf x / x - 1, z = x^2", lambda z: mp.erf(root(z)) / root(z) - 1,
        lambda z: root(z) / mp.erf(root(z)), 7, mp.mpf(0), mp.mpf("0.93") ** 2)
    fit("erf far: -log(erfc t) / t - 1", lambda t: -mp.log(mp.erfc(t)) / t - 1,
        lambda t: t * mp.erfc(t) / mp.erf(t), 7, mp.mpf("0.925"), mp.mpf(4))


main()
