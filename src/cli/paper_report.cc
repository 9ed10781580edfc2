#include "cli/paper_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "sim/megatron_example.h"
#include "sim/paper_claims.h"
#include "sim/paper_figure17.h"

namespace weft {
namespace {

// The larger settings take half a GB each while they are simulated.
constexpr unsigned kMostThreads = 4;

struct PaperResult {
  PaperRunOptions options;
  PaperFigure17 figure;
  std::vector<PaperClaim> claims;
};

struct Constant {
  const char* name;
  double value;
  const char* fitted_on;
};

std::vector<Constant> constants_of(const PaperCalibration& calibration) {
  const MegatronCalibration megatron;
  constexpr const char* kPanel = "llama-7b and github";
  constexpr const char* kRow = "Megatron-LM's example on 4 ranks";
  return {{"gemm_share", calibration.gemm_share, kPanel},
          {"nic_share", calibration.nic_share, kPanel},
          {"launch_ns", megatron.launch_ns, kRow},
          {"ring_step_ns", megatron.ring_step_ns, kRow}};
}

std::vector<std::string> assumptions_of(const PaperRunOptions& options) {
  const TrainingSetup setup;
  return {
      fmt::format(
          "attention at {} of the peak, the middle of what FlashAttention-2 reports on A100",
          options.calibration.attention_share),
      "hardware: 8 x A800-80G a node with 4 NICs of 200 Gb/s, configs/cluster/a800.json",
      "mesh: the fewest devices a rank with which weights and gradients take at most a third of "
      "a device's memory, tensor first",
      fmt::format("capacity {} tokens a rank for all models", kPaperCapacity),
      fmt::format("32M tokens a step, {} steps, seed {}", options.num_steps, kPaperSeed),
      "backward 2.5 times the forward; nothing recomputed or offloaded",
      fmt::format("expert matrices at {} of the rate of dense ones", setup.mixture_share),
      "12,288 devices for \"> 12K\"",
      "naive HDP: sequences in the order of the batch on the next ranks, time step by time step "
      "(Fig. 8), then packs where ranks are left",
      fmt::format("pipelines of all strategies: interleaved 1F1B, as MegaScale, {} chunks a device",
                  kPaperVirtualStages),
      "Megatron-LM's example: bound by launches of the host; GB200 NVL72 (four devices a host); "
      "lengths as its mock dataset draws them, iterations 11 to 30"};
}

PaperResult predict(std::int64_t num_steps) {
  PaperResult result;
  result.options.num_steps = num_steps;
  result.options.num_threads =
      static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, kMostThreads));
  result.options.progress = [](const std::string& what) { log_info("simulate --paper: {}", what); };
  result.figure = predict_figure17(result.options);
  const auto add = [&](const std::vector<PaperClaim>& claims) {
    result.claims.insert(result.claims.end(), claims.begin(), claims.end());
  };
  add(predict_ablation(result.options));
  add(predict_case_study(result.options));
  add(predict_ring_overlap(result.options));
  add(predict_random_packing());
  add(predict_degrees());
  add(predict_offload_curve());
  result.options.progress("Megatron-LM's example");
  add(predict_megatron());
  const PaperScaling published;
  const PaperScaling predicted = scaling_of(result.figure);
  add({{"scaling", "static, per doubling of the context", published.baseline, predicted.baseline},
       {"scaling", "static, against the bars of Fig. 17", published.baseline_bars,
        predicted.baseline},
       {"scaling", "naive", published.naive, predicted.naive},
       {"scaling", "balanced", published.balanced, predicted.balanced}});
  return result;
}

const PaperPanel& panel_of(const PaperLabel& label) {
  return paper_panels()[static_cast<std::size_t>(label.panel_idx)];
}

PaperErrors errors_of_strategy(const PaperFigure17& figure, bool is_dp_balance) {
  return errors_of(figure, [=](const PaperLabel& label) {
    return panel_of(label).is_dp_balance == is_dp_balance;
  });
}

nlohmann::ordered_json json_of(const PaperErrors& errors) {
  nlohmann::ordered_json json;
  json["mean_abs_error"] = errors.mean_abs_error;
  json["rank_correlation"] = errors.rank_correlation;
  json["labels"] = errors.num_labels;
  json["slower_where_published_faster"] = errors.num_slower;
  return json;
}

nlohmann::ordered_json json_of(const PaperLabel& label) {
  nlohmann::ordered_json json;
  json["model"] = panel_of(label).model;
  json["workload"] = panel_of(label).workload;
  json["context"] = kPaperContexts[static_cast<std::size_t>(label.context_idx)].value();
  json["strategy"] = label.is_balanced ? "balanced" : "naive";
  json["published"] = label.published;
  json["predicted"] = label.predicted;
  json["error"] = label.error();
  json["calibration"] = label.is_calibration;
  return json;
}

nlohmann::ordered_json panels_json(const PaperFigure17& figure) {
  nlohmann::ordered_json panels = nlohmann::ordered_json::array();
  for (std::size_t p = 0; p < paper_panels().size(); ++p) {
    const PaperPanel& panel = paper_panels()[p];
    if (panel.is_calibration()) continue;
    nlohmann::ordered_json json = json_of(errors_of(figure, [&](const PaperLabel& label) {
      return label.panel_idx == static_cast<std::int32_t>(p);
    }));
    json["model"] = panel.model;
    json["workload"] = panel.workload;
    json["devices"] = panel.num_devices;
    panels.push_back(std::move(json));
  }
  return panels;
}

nlohmann::ordered_json constants_json(const PaperCalibration& calibration) {
  nlohmann::ordered_json json;
  for (const Constant& constant : constants_of(calibration)) json[constant.name] = constant.value;
  return json;
}

void print_json(const PaperResult& result) {
  nlohmann::ordered_json json;
  const PaperErrors all = errors_of(result.figure, [](const PaperLabel&) { return true; });
  json["mean_abs_error"] = all.mean_abs_error;
  json["rank_correlation"] = all.rank_correlation;
  json["slower_where_published_faster"] = all.num_slower;
  json["dp_balance"] = json_of(errors_of_strategy(result.figure, true));
  json["pp_balance"] = json_of(errors_of_strategy(result.figure, false));
  json["panels"] = panels_json(result.figure);
  json["fitted"] = constants_json(result.options.calibration);
  json["assumed"] = assumptions_of(result.options);
  for (const PaperLabel& label : result.figure.labels) json["labels"].push_back(json_of(label));
  for (const PaperClaim& claim : result.claims) {
    nlohmann::ordered_json entry;
    entry["group"] = claim.group;
    entry["name"] = claim.name;
    entry["published"] =
        claim.published == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(claim.published);
    entry["predicted"] = claim.predicted;
    entry["error"] =
        claim.published == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(claim.error());
    json["claims"].push_back(std::move(entry));
  }
  fmt::print("{}\n", json.dump());
}

void print_panel(const PaperFigure17& figure, std::size_t panel_idx) {
  const PaperPanel& panel = paper_panels()[panel_idx];
  for (const bool is_balanced : {false, true}) {
    std::string row =
        fmt::format("{:<14} {:<7} {:<9}", is_balanced ? "" : panel.model,
                    is_balanced ? "" : panel.workload, is_balanced ? "balanced" : "naive");
    for (const PaperLabel& label : figure.labels) {
      if (label.panel_idx != static_cast<std::int32_t>(panel_idx) ||
          label.is_balanced != is_balanced)
        continue;
      row += fmt::format("  {:>5.2f} {:>5.2f} {:>+4.0f}%", label.predicted, label.published,
                         100 * label.error());
    }
    if (panel.is_calibration()) row += "  fitted";
    fmt::print("{}\n", row);
  }
}

void print_errors(const char* name, const PaperErrors& errors) {
  fmt::print("{:<40} {:>6.1f} % of {} labels, rank correlation {:.3f}, {} predicted slower\n", name,
             100 * errors.mean_abs_error, errors.num_labels, errors.rank_correlation,
             errors.num_slower);
}

void print_text(const PaperResult& result) {
  fmt::print("speedups over a static mesh (ByteScale Fig. 17): predicted, published, error\n\n");
  fmt::print("{:<14} {:<7} {:<9}", "model", "lengths", "HDP");
  for (const Tokens context : kPaperContexts) fmt::print("  {:^17}", format_count(context.value()));
  fmt::print("\n");
  for (std::size_t p = 0; p < paper_panels().size(); ++p) print_panel(result.figure, p);
  fmt::print("\nmean absolute error, held-out labels\n");
  print_errors("all", errors_of(result.figure, [](const PaperLabel&) { return true; }));
  print_errors("DP-balance (llama-7b, 13b, 30b)", errors_of_strategy(result.figure, true));
  print_errors("PP-balance (llama-70b, mixtral)", errors_of_strategy(result.figure, false));
  fmt::print("\n{:<16} {:<52} {:>10} {:>10} {:>6}\n", "claim", "", "predicted", "published",
             "error");
  for (const PaperClaim& claim : result.claims) {
    if (claim.published == 0) {
      fmt::print("{:<16} {:<52} {:>10.3f}\n", claim.group, claim.name, claim.predicted);
    } else {
      fmt::print("{:<16} {:<52} {:>10.3f} {:>10.3f} {:>+5.0f}%\n", claim.group, claim.name,
                 claim.predicted, claim.published, 100 * claim.error());
    }
  }
  fmt::print("\nfitted:\n");
  for (const Constant& constant : constants_of(result.options.calibration))
    fmt::print("- {} {}, on {}\n", constant.name, constant.value, constant.fitted_on);
  fmt::print("assumed:\n");
  for (const std::string& line : assumptions_of(result.options)) fmt::print("- {}\n", line);
}

}  // namespace

void run_paper(std::int64_t num_steps, bool is_json) {
  const PaperResult result = predict(num_steps);
  if (is_json) {
    print_json(result);
  } else {
    print_text(result);
  }
}

}  // namespace weft
