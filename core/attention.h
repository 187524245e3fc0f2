/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libattention: softmax(scale * Q K^T) V with masks, head groups and the map itself, on CPU.
 *
 * The way of a call: fill a struct attn_request -> attn_call_init validates it -> attn_plan_make
 * says what it costs and which tensors it gives -> give those tensors memory -> attn_execute_task
 * for each task on one thread, or attn_execute_next as often on several, which a scheduler may
 * bring -> attn_call_close.
 */
#ifndef ATTN_CORE_ATTENTION_H
#define ATTN_CORE_ATTENTION_H

#include "core/batch.h"
#include "core/call.h"
#include "core/executor.h"
#include "core/heads.h"
#include "core/kept.h"
#include "core/kv_cache.h"
#include "core/mask.h"
#include "core/merge.h"
#include "core/plan.h"
#include "core/request.h"
#include "core/result.h"
#include "core/scaling.h"
#include "core/scheduler.h"
#include "core/status.h"
#include "core/tensor.h"

#endif
