// SPDX-License-Identifier: Apache-2.0
/* unary.h - the activation functions, for ops that fuse one. */
#ifndef MT_CORE_OPS_UNARY_H
#define MT_CORE_OPS_UNARY_H

#include "view.h"

double mt_activation_f64(mt_activation activation, double x);

#endif
