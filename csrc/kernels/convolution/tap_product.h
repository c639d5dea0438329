// The engine of convolution and of its input gradient: every output pixel is a sum over taps of
// (input pixel at a fixed offset) · (matrix of that tap). Output rows are tiles of C, taps are the pairs of
// one batch tile, so nothing is gathered: A is the channels-last image itself with pixels as rows. A strided
// input gradient is several phases, one for each residue of the output position, each with the taps that
// reach it. Sums run over taps in order, in pieces of at most 640 terms that are added in order; lanes cut
// output rows or output channels. The rows of a tile are neighbouring pixels of an image that is padded with
// zeros (tap_product.cc) or, in batches of small images, one pixel of several images, which meets only the taps
// inside the image (tap_images.cc), or all pixels of a small image that meet a tap (tap_pixels.cc): the chains are the same but for products with zero. Not here: depthwise
// convolution (depthwise.h), weight gradients (weight_gradient.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/convolution/image_rows.h"
#include "kernels/convolution/pixel_tile.h"
#include "kernels/convolution/tile_end.h"
#include "kernels/tile_gemm/tile_gemm.h"
#include "kernels/tile_gemm/vector_tiles.h"

namespace ipu::kernels {

struct Tap {
  int64_t row = 0, column = 0;  // of the input pixel, relative to (output position in the phase) * in_step
  int64_t weight = 0;           // number of the tap in the weight: kernel_y * kernel_width + kernel_x
};

struct TapPhase {
  int64_t first_row = 0, row_step = 1;        // output rows first_row, first_row + row_step, ...
  int64_t first_column = 0, column_step = 1;  // and columns
  std::vector<Tap> taps;                      // sorted by row, then column
};

struct TapProductShape {
  int64_t batch = 0, groups = 1;
  ImageShape in, out;
  int64_t in_row_step = 1, in_column_step = 1;
  std::vector<TapPhase> phases;
  // The plain weight [O, C/groups, taps], read as [in, out] (forward) or [out, in] (input gradient) channels.
  bool swaps_channels = false;
  int64_t weight_taps = 1;
  // Panels of [taps * C, O], one group; read forward as they are, where there is one phase.
  bool weight_is_packed = false;
  bool is_half = false;  // input, weight, bias and output are f16
  Activation activation = Activation::kNone;
  double cost = 0;  // microseconds on one worker
};

// Operands beside input and weight; null where absent. The scale and the addend, which lies as the output does, are f32.
struct EndOperands {
  const void* bias = nullptr;
  const float *scale = nullptr, *addend = nullptr;
};

class TapProduct {
 public:
  explicit TapProduct(TapProductShape shape);
  int lanes() const { return row_lanes_ * panel_lanes_; }
  int64_t scratch_bytes() const { return scratch_floats_ * static_cast<int64_t>(sizeof(float)); }
  // An addend needs an output whose rows are direct.
  void run(const void* input, const void* weight, const EndOperands& end, void* output, std::byte* scratch,
           int lane, StopMeter& meter) const;

 private:
  // Several neighbouring taps of a row make one segment when the pixels are contiguous and have few channels.
  struct Segment {
    int64_t row, column, channel;  // channel: start within the group
    int64_t weight_row;            // of the packed panel
  };
  struct Phase {
    int64_t first_row, row_step, rows, first_column, column_step, columns;
    int64_t depth = 0, weight_rows = 0, segments_per_piece = 1;
    bool merges_taps = false;  // a segment holds several taps
    std::vector<Segment> segments;
    std::vector<int64_t> weight_taps;  // in the order of weight_row
    int64_t packed_at = 0;             // start of the phase in the packed weights of a lane
    // [remaining or full columns; of images: the smaller or the larger block][inner or last panel][into the
    // output or a partial tile]
    BatchTileGemm tiles[2][2][2];
  };
  static constexpr int64_t kBlockRows = 64;  // of weights that are packed or widened at once
  struct Work {                              // of one lane
    int64_t first_panel, last_panel;
    const float* packed;
    const Half* halves;  // in place of `packed`: panels that are widened piece by piece into `block`
    float *rows, *out, *partial, *block;
    uint64_t *a_offsets, *b_offsets;
    uint8_t* written;  // of images: which positions of the rows hold a sum already
    TileEnd end;
    const float* output;  // the addend lies beside it
    // What ends the tile at c, which starts with this channel.
    TileEnd end_of(int64_t channel, const float* c) const {
      return end.at(channel, end.addend == nullptr ? 0 : c - output);
    }
  };
  void build_phase(const TapPhase& from, Phase& phase) const;
  void make_tiles(Phase& phase) const;
  void make_tile(Phase& phase, int kind, int64_t rows, int64_t lda, int64_t ldc) const;
  bool suits_images() const;
  void plan_images();
  void plan_lanes();
  bool pack_weights(const void* weight, int64_t first_panel, int64_t last_panel, float* packed, float* block,
                    StopMeter& meter) const;  // false: the lane is to return
  template <class T>
  void pack_transposed_panel(const Phase& phase, const T* panels, int64_t column, float* to) const;
  template <class T>
  void pack_panel(const Phase& phase, const T* weight, int64_t group, int64_t column, float* to,
                  float* block) const;
  void input_rows(int64_t first, int64_t last, int64_t& low, int64_t& high) const;
  bool run_rows(const Work& work, const float* image, int64_t image_first_row, float* out,
                int64_t out_first_row, int64_t first, int64_t last, StopMeter& meter) const;
  bool run_tile_row(const Phase& phase, int64_t index, const Work& work, int64_t panel, const float* image,
                    int64_t image_first_row, float* out_row, StopMeter& meter) const;

  // Few pixels.
  bool suits_pixels() const;
  void plan_pixels();
  bool run_pixel_rows(const Work& work, const float* in, float* out, int64_t start, int64_t until,
                      StopMeter& meter) const;
  bool run_pixels(const Work& work, const Phase& phase, int64_t panel, const float* in, float* out,
                  int64_t start, int64_t until, StopMeter& meter) const;
  void add_segment(const Work& work, const Phase& phase, int64_t panel, int64_t segment, PixelTile& tile,
                   const float** a) const;

  // Images in blocks.
  struct ImageBlock;
  int64_t first_image(int64_t block) const { return shape_.batch * block / image_blocks_; }
  bool run_images(Work& work, const void* input, void* output, int64_t first, int64_t last,
                  StopMeter& meter) const;
  bool run_image_rows(const Work& work, const ImageBlock& block, const Phase& phase, int64_t panel,
                      StopMeter& meter) const;

  TapProductShape shape_;
  int64_t in_group_, out_group_, panel_width_, panels_per_group_, panels_;
  int64_t pad_left_ = 0, pad_right_ = 0;
  bool copies_rows_ = false, copies_weights_ = true;
  bool widens_pieces_ = false;                     // of packed halves, each as it is met
  bool finishes_rows_ = false;                     // the end of whole rows: few channels fill no vector
  int64_t column_step_ = 64;                       // pixels of a tile
  bool is_by_pixel_ = false;                       // tiles of all pixels of an image that meet a tap
  int64_t image_blocks_ = 0;                       // 0: tiles of neighbouring pixels
  int64_t most_images_ = 0, most_image_rows_ = 0;  // of a block, and output rows at a time
  int64_t in_pitch_ = 0, out_pitch_ = 0;           // from image to image of a block
  std::vector<Phase> phases_;
  int row_lanes_ = 1, panel_lanes_ = 1;
  int64_t packed_floats_ = 0;  // per panel, all phases
  int64_t bias_floats_ = 0, end_row_floats_ = 0, rows_floats_ = 0, out_floats_ = 0, most_segments_ = 0,
          partial_floats_ = 0, written_floats_ = 0, scratch_floats_ = 0;
};

}  // namespace ipu::kernels
