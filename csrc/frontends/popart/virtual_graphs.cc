// Virtual graphs by cost (VirtualGraphMode.Auto). The nodes form chains: one begins at each reader of nothing but inputs
// and initialisers, goes on through readers, and ends where chains meet, where another begins. A chain may be cut behind a
// node whose results are all that goes on. What the backward pass keeps of the forward pass is taken to be the operands of
// every node: which of them a gradient rule reads is known only when it is built.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "frontends/popart/placement.h"
#include "frontends/records/import.h"
#include "support/error.h"

namespace ipu::frontends::popart {
namespace {

using records::NodeRecord;

class Chains {
 public:
  Chains(records::ModelRecord& model, const SessionSettings& settings) : model_(model), settings_(settings) {
    for (const auto& initialiser : model.graph.initialisers)
      initialiser_bytes_[initialiser.name] = static_cast<double>(initialiser.type().bytes());
    for (size_t i = 0; i < model.graph.nodes.size(); ++i)
      for (const std::string& result : model.graph.nodes[i].results)
        if (!result.empty()) producer_[result] = i;
  }

  void assign() {
    std::vector<NodeRecord>& nodes = model_.graph.nodes;
    if (settings_.ipus_of_replica == 1) {
      for (NodeRecord& node : nodes)
        if (node.type != "Constant") node.settings.ipu = 0;
      return;
    }
    find_chains();
    const std::vector<double> costs = find_costs();
    const std::vector<size_t> cuts = choose(possible_cuts(), costs);
    int ipu = 0;
    size_t next = 0;
    for (size_t at = 0; at < order_.size(); ++at) {
      nodes[order_[at]].settings.ipu = ipu;
      if (next < cuts.size() && cuts[next] == at) ++ipu, ++next;
    }
  }

 private:
  void find_chains() {
    const std::vector<NodeRecord>& nodes = model_.graph.nodes;
    chain_.assign(nodes.size(), 0);
    int chains = 0;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].type == "Constant") continue;
      std::set<int> before;
      for (const std::string& name : nodes[i].operands)
        if (const auto at = producer_.find(name);
            at != producer_.end() && nodes[at->second].type != "Constant")
          before.insert(chain_[at->second]);
      chain_[i] = before.size() == 1 ? *before.begin() : chains++;
      order_.push_back(i);
    }
    // A chain reads chains before it alone, so this is still an order of the flow of data.
    std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) { return chain_[a] < chain_[b]; });
  }

  std::vector<double> find_costs() const {
    const records::Imported imported = records::import_model(model_, settings_.loss, settings_.step.replicas);
    const bool is_training = !settings_.loss.empty();
    std::vector<double> costs;
    for (size_t node : order_) {
      double cost = 0;
      for (const std::string& name : model_.graph.nodes[node].operands) {
        if (const auto at = initialiser_bytes_.find(name); at != initialiser_bytes_.end())
          cost += at->second * (settings_.accumulates ? 2 : 1);
        else if (const auto value = imported.values.find(name); is_training && value != imported.values.end())
          cost += static_cast<double>(value->second->type().bytes());
      }
      costs.push_back(cost);
    }
    return costs;
  }

  // Positions behind which a chain may be cut, without the last.
  std::vector<size_t> possible_cuts() const {
    std::vector<size_t> position(model_.graph.nodes.size(), 0);
    for (size_t at = 0; at < order_.size(); ++at) position[order_[at]] = at;
    std::map<size_t, size_t> last_reader;  // by position of the producer
    for (size_t at = 0; at < order_.size(); ++at)
      for (const std::string& name : model_.graph.nodes[order_[at]].operands)
        if (const auto producer = producer_.find(name);
            producer != producer_.end() && model_.graph.nodes[producer->second].type != "Constant") {
          size_t& last = last_reader[position[producer->second]];
          last = std::max(last, at);
        }
    std::vector<size_t> cuts;
    size_t reached = 0;  // by what the chain made before
    for (size_t at = 0; at + 1 < order_.size(); ++at) {
      const bool begins = at == 0 || chain_[order_[at]] != chain_[order_[at - 1]];
      if (begins) reached = 0;
      const bool ends = chain_[order_[at]] != chain_[order_[at + 1]];
      if (ends || reached <= at) cuts.push_back(at);
      if (const auto last = last_reader.find(at); last != last_reader.end())
        reached = std::max(reached, last->second);
    }
    return cuts;
  }

  std::vector<size_t> choose(const std::vector<size_t>& cuts, const std::vector<double>& costs) const {
    const auto ipus = static_cast<size_t>(settings_.ipus_of_replica);
    if (cuts.size() + 1 < ipus)
      throw Error(
          ErrorCode::kOption,
          fmt::format("too few places to cut: virtualGraphMode is Auto, a replica has {} IPUs, and the {} "
                      "operators can be cut in {} places. Use fewer IPUs, or annotate the operators and set "
                      "VirtualGraphMode.Manual.",
                      ipus, order_.size(), cuts.size()));
    std::vector<double> reached(costs.size());
    std::partial_sum(costs.begin(), costs.end(), reached.begin());
    std::vector<size_t> chosen;
    double share = 0;
    size_t from = 0;
    for (size_t i = 0; i + 1 < ipus; ++i) {
      share += settings_.split_ratios.empty() ? 1.0 / static_cast<double>(ipus) : settings_.split_ratios[i];
      const size_t left = ipus - 2 - i;  // cuts still to come
      size_t best = from;
      for (size_t c = from; c + left < cuts.size(); ++c)
        if (std::abs(reached[cuts[c]] - share * reached.back()) <
            std::abs(reached[cuts[best]] - share * reached.back()))
          best = c;
      chosen.push_back(cuts[best]);
      from = best + 1;
    }
    return chosen;
  }

  records::ModelRecord& model_;
  const SessionSettings& settings_;
  std::map<std::string, double> initialiser_bytes_;
  std::map<std::string, size_t> producer_;
  std::vector<int> chain_;     // of each node
  std::vector<size_t> order_;  // nodes by chain
};

}  // namespace

void assign_virtual_graphs(records::ModelRecord& model, const SessionSettings& settings) {
  Chains(model, settings).assign();
}

}  // namespace ipu::frontends::popart
