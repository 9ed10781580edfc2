// The cost of a model on a cluster, from shapes and rates alone: no measurement goes in.
//
// A rank is a slice of tensor x pipeline devices (Mesh). Per layer forward, on the devices of one
// stage: matrices at gemm_share and attention at attention_share of the peak, the collectives of
// tensor parallelism (two gathers and two scatters of the hidden states, docs/cost.md) as part of
// the linear time, and a ring hop over the NICs that the stage's devices share, or over the links
// of the node in a ring that stays inside one. The vocabulary head, which belongs to no layer, is
// spread evenly over the layers. Memory is counted per device (docs/cost.md "Memory").
#pragma once

#include <cstdint>
#include <string_view>

#include "base/units.h"
#include "cluster/cluster_description.h"
#include "cost/cost_model.h"
#include "cost/model_shape.h"

namespace weft {

// What a layer keeps between forward and backward: everything, or its input alone, the rest being
// computed again.
enum class Recompute : std::uint8_t { kNone, kFull };

std::string_view to_string(Recompute recompute);  // "none", "full"
Recompute parse_recompute(std::string_view text, std::string_view what);

struct TrainingSetup {
  Mesh mesh;
  std::int64_t virtual_stages = 1;  // V, chunks of layers that a device of a pipeline holds
  Recompute recompute = Recompute::kNone;
  // Backward over forward without recomputation: 2 for matrices, 2.5 for attention (5 products
  // instead of 2), measured as 2.4-2.6 together (ByteScale section 8.3).
  double backward_ratio = 2.5;
  // Rate of expert matrices over that of dense ones: many small products, uneven routing, tokens
  // sent to experts and back; assumed.
  double mixture_share = 0.5;
  double fixed_ns = 50'000;     // a micro-batch and layer: kernel launches; assumed
  double element_bytes = 2;     // of activations, K, V and logits, 16 bit
  double weight_bytes = 2;      // of a weight, 16 bit
  double gradient_bytes = 4;    // of a gradient, fp32
  double optimizer_bytes = 12;  // of a weight's master copy and two moments, fp32; sharded (ZeRO-1)
  friend bool operator==(const TrainingSetup&, const TrainingSetup&) = default;
};

// What is trained in: "bfloat16" is the setup above (mixed precision: fp32 gradients, master
// weights and moments); "float32" has no master copies, as weft train. UserError for another name.
void set_dtype(TrainingSetup& setup, std::string_view name, std::string_view what);

// UserError when the model cannot be cut so: tensor must divide heads and key/value heads (or be a
// multiple of the latter, which then repeat), the stages at most the layers.
void check_setup(const ModelShape& model, const ClusterDescription& cluster,
                 const TrainingSetup& setup);

// UserError unless V >= 1 and, where it is above 1, there are pipeline stages and p * V divides the
// layers.
void check_virtual_stages(std::int64_t stages, std::int64_t virtual_stages, std::int64_t num_layers,
                          std::string_view model);

CostModel cost_from_shape(const ModelShape& model, const ClusterDescription& cluster,
                          const TrainingSetup& setup);

// A hop over links inside the node, and over the NICs that the devices of a stage share.
HopCost node_hop(const ModelShape& model, const ClusterDescription& cluster,
                 const TrainingSetup& setup);
HopCost nic_hop(const ModelShape& model, const ClusterDescription& cluster,
                const TrainingSetup& setup);

// Kept of a token between a layer's forward and backward, on one device.
double activation_bytes_per_layer(const ModelShape& model, const TrainingSetup& setup);

// Bytes of one device of the fullest stage.
struct DeviceMemory {
  double weights = 0;
  double gradients = 0;
  double optimizer = 0;
  double activations_per_token =
      0;                        // of capacity: of all micro-batches in flight, a device's layers
  double logits_per_token = 0;  // last stage: logits of the tokens of one micro-batch
  double states() const { return weights + gradients + optimizer; }
  double total(Tokens resident) const {
    return states() +
           (activations_per_token + logits_per_token) * static_cast<double>(resident.value());
  }
};
DeviceMemory device_memory(const ModelShape& model, const TrainingSetup& setup);

// Most tokens of capacity that fit beside the states, with `reserve` of the memory left free for
// buffers and fragments; 0 when not even the states do.
Tokens largest_capacity(const ModelShape& model, const ClusterDescription& cluster,
                        const TrainingSetup& setup, double reserve = 0.1);

}  // namespace weft
