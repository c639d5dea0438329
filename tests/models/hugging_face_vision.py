"""Models of images (hugging_face.py has them all)."""

import functools

import torch
import transformers

from hugging_face_inputs import CLASSES, IMAGE_NAMES, SIZES, UNDROPPED, ByPosition, Model, images

larger_images = functools.partial(images, size=32)


def many_images(rows, generator):
    """Two to a row: normalizing two values would give their signs alone."""
    return images(2 * rows, generator, size=32)


def vit(**how):
    config = transformers.ViTConfig(**SIZES, **UNDROPPED, image_size=16, patch_size=4, num_labels=CLASSES, **how)
    return ByPosition(transformers.ViTForImageClassification(config), IMAGE_NAMES)


def deit(**how):
    config = transformers.DeiTConfig(**SIZES, **UNDROPPED, image_size=16, patch_size=4, num_labels=CLASSES, **how)
    return ByPosition(transformers.DeiTForImageClassification(config), IMAGE_NAMES)


def swin(**how):
    config = transformers.SwinConfig(
        image_size=32,
        patch_size=4,
        embed_dim=16,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
        drop_path_rate=0.0,
        num_labels=CLASSES,
        **how,
    )
    return ByPosition(transformers.SwinForImageClassification(config), IMAGE_NAMES)


def convnext():
    config = transformers.ConvNextConfig(
        num_stages=2,
        hidden_sizes=[16, 32],
        depths=[1, 2],
        image_size=32,
        layer_scale_init_value=0.5,
        num_labels=CLASSES,
    )
    return ByPosition(transformers.ConvNextForImageClassification(config), IMAGE_NAMES)


def resnet():
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[16, 32], depths=[1, 2], num_labels=CLASSES)
    return ByPosition(transformers.ResNetForImageClassification(config), IMAGE_NAMES)


def mobilenet():
    """Each channel is well inside one of the three pieces of `relu6`.

    Of 100,000 activations some are so close to 0 or 6 that single precision, of torch too, takes the slope of the other side; an
    update would bring others there.
    """
    config = transformers.MobileNetV2Config(
        image_size=32, output_stride=8, depth_multiplier=0.25, classifier_dropout_prob=0.0, num_labels=CLASSES
    )
    model = transformers.MobileNetV2ForImageClassification(config)
    for norm in model.modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            torch.nn.init.constant_(norm.weight, 0.4)
            norm.bias.data = torch.tensor([3.0, 3.0, 3.0, -3.0, 9.0])[torch.randint(5, norm.bias.shape)]
    return ByPosition(model, IMAGE_NAMES)


VISION = {
    "ViTForImageClassification": Model(vit, images, "model.vit.layers.1"),
    "DeiTForImageClassification": Model(deit, images, "model.deit.layers.1"),
    "SwinForImageClassification": Model(swin, larger_images, "model.swin.encoder.layers.1"),
    "ConvNextForImageClassification": Model(convnext, larger_images, "model.convnext.encoder.stages.1", ("none",)),
    "ResNetForImageClassification": Model(resnet, larger_images, "model.resnet.encoder.stages.1", ("none",)),
    "MobileNetV2ForImageClassification": Model(
        mobilenet, many_images, "model.mobilenet_v2.layer.8", ("none",), updates=1
    ),
}
