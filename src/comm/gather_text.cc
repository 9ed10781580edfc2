#include "comm/gather_text.h"

#include <array>

#include "comm/collectives.h"

namespace weft {

std::vector<std::string> gather_texts(Communicator& comm, std::string_view mine,
                                      const OpLabel& label) {
  const std::array own_size{static_cast<std::int64_t>(mine.size())};
  const auto sizes = gather_all<std::int64_t>(comm, own_size, label);
  std::vector<std::string> texts(sizes.size());
  std::vector<SendOp> sends;
  std::vector<RecvOp> recvs;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Rank rank(static_cast<std::int64_t>(i));
    if (rank == comm.rank()) {
      texts[i] = mine;
      continue;
    }
    texts[i].resize(static_cast<std::size_t>(sizes[i]));
    if (!mine.empty()) sends.push_back({rank, mine.data(), Bytes(own_size[0])});
    if (sizes[i] > 0) recvs.push_back({rank, texts[i].data(), Bytes(sizes[i])});
  }
  if (!sends.empty() || !recvs.empty()) {
    comm.exchange(Channel::kControl, label, sends, recvs).wait();
  }
  return texts;
}

std::optional<RankReason> first_reason(Communicator& comm, std::string_view own_reason,
                                       const OpLabel& label) {
  const auto reasons = gather_texts(comm, own_reason, label);
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    if (!reasons[i].empty()) return RankReason{Rank(static_cast<std::int64_t>(i)), reasons[i]};
  }
  return std::nullopt;
}

}  // namespace weft
