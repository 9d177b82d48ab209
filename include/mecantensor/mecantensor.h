// SPDX-License-Identifier: Apache-2.0
/*
 * mecantensor.h - everything a program needs.
 *
 *   cc $(pkg-config --cflags mecantensor) prog.c $(pkg-config --libs mecantensor)
 *
 * The headers are the manual: status.h (errors), dtype.h, tensor.h, quant.h (block
 * formats), runtime.h and device.h (backends), ops.h and nn.h (operations), blas.h (matrix
 * products on plain memory), io.h (files).
 * plugin.h is for those who write a backend.
 */
#ifndef MECANTENSOR_H
#define MECANTENSOR_H

#include <mecantensor/blas.h>
#include <mecantensor/device.h>
#include <mecantensor/dtype.h>
#include <mecantensor/io.h>
#include <mecantensor/nn.h>
#include <mecantensor/ops.h>
#include <mecantensor/quant.h>
#include <mecantensor/runtime.h>
#include <mecantensor/status.h>
#include <mecantensor/tensor.h>
#include <mecantensor/version.h>

#endif
