"""The architectures of the three papers in PyTorch, written from their equations and from nothing of
lathe's C code, to be lathe's judge. Slow and literal on purpose: every head, key and repetition is
written out, autograd does the rest.

run(profile, weights, tokens, dtype) takes the resolved profile (what `lathe show --json` prints),
a dict of numpy weights and B*T + 1 token ids, and returns losses, logits, gate statistics and the
gradient of the total loss by every weight.

  A  layer-wise scaling, arXiv 2509.06518       widths and heads differ per layer
  B  learning to skip the middle, 2506.21103    gates, sandwich norms, regulariser
  C  intra-layer recurrence, 2505.01855         reuse maps, block recurrence, ALiBi
"""

import math

import torch


# ---- the profile -----------------------------------------------------------------------------


class Config:
    """The keys of a profile that say what is computed."""

    def __init__(self, profile):
        m, gate, train = profile["model"], profile["gate"], profile["train"]
        self.d, self.L, self.h = m["d_model"], m["n_layers"], m["head_dim"]
        self.f, self.n_q, self.n_kv = m["ffn_width"], m["n_heads"], m["n_kv_heads"]
        self.r = m["reuse"]
        pad = m["vocab_pad"]
        self.V = (m["vocab"] + pad - 1) // pad * pad  # padded rows take part in the softmax
        self.B, self.T = train["micro_batch_size"], train["seq_len"]
        self.norm, self.place, self.eps = m["norm"], m["norm_place"], m["norm_eps"]
        self.input_norm, self.qk_norm = m["input_norm"], m["qk_norm"]
        self.act, self.bias, self.tied = m["act"], m["bias"], m["tie_embeddings"]
        self.pos, self.theta, self.layout = m["pos"], m["rope_theta"], m["rope_layout"]
        self.loops, self.block_inject = m["block_loops"], m["block_inject"]
        self.reuse_inject = m["reuse_inject"]
        self.gated, self.gate = gate["enabled"], gate
        if self.gated and self.L % 2:
            raise ValueError("gates pair layer i with L-1-i: L must be even")


def norm_names(cfg):
    """Names of a layer's norms: attention in, attention out, FFN in, FFN out."""
    return {
        "pre": ("input_layernorm", None, "post_attention_layernorm", None),
        "reordered": (None, "post_attention_layernorm", None, "post_feedforward_layernorm"),
        "sandwich": ("input_layernorm", "post_attention_layernorm",
                     "pre_feedforward_layernorm", "post_feedforward_layernorm"),
    }[cfg.place]


def expected_shapes(cfg):
    """Every weight of the model with its shape; linear weights are [out, in]."""
    shapes = {"model.embed_tokens.weight": (cfg.V, cfg.d)}

    def linear(name, n_out, n_in, bias):
        shapes[name + ".weight"] = (n_out, n_in)
        if bias:
            shapes[name + ".bias"] = (n_out,)

    def norm(name):
        shapes[name + ".weight"] = (cfg.d,)
        if cfg.norm == "layer" and cfg.bias:
            shapes[name + ".bias"] = (cfg.d,)

    if cfg.pos == "learned":
        shapes["model.embed_positions.weight"] = (cfg.T, cfg.d)
    if cfg.input_norm:
        norm("model.embed_norm")
    for i in range(cfg.L):
        at = f"model.layers.{i}."
        q, k = cfg.n_q[i] * cfg.h, cfg.n_kv[i] * cfg.h
        if cfg.gated and i < cfg.L // 2:
            shapes[at + "gate.weight"], shapes[at + "gate.bias"] = (cfg.d,), (1,)
        for name in norm_names(cfg):
            if name:
                norm(at + name)
        for name, n_out in (("q", q), ("k", k), ("v", k)):
            linear(f"{at}self_attn.{name}_proj", n_out, cfg.d, cfg.bias)
        linear(at + "self_attn.o_proj", cfg.d, q, cfg.bias)
        if cfg.qk_norm != "none":
            full = cfg.qk_norm == "full"
            shapes[at + "self_attn.q_norm.weight"] = (q if full else cfg.h,)
            shapes[at + "self_attn.k_norm.weight"] = (k if full else cfg.h,)
        if cfg.act == "swiglu":
            linear(at + "mlp.gate_proj", cfg.f[i], cfg.d, cfg.bias)
        linear(at + "mlp.up_proj", cfg.f[i], cfg.d, cfg.bias)
        linear(at + "mlp.down_proj", cfg.d, cfg.f[i], cfg.bias)
    norm("model.norm")
    if not cfg.tied:
        shapes["lm_head.weight"] = (cfg.V, cfg.d)
    return shapes


# ---- parts -----------------------------------------------------------------------------------


def rms_norm(x, gain, eps):
    return gain * x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps)


def layer_norm(x, gain, bias, eps):
    mean = x.mean(-1, keepdim=True)
    var = ((x - mean) ** 2).mean(-1, keepdim=True)
    y = gain * (x - mean) / torch.sqrt(var + eps)
    return y if bias is None else y + bias


def gelu(x, tanh):
    if tanh:
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def rotate(x, theta, layout):
    """RoPE of x (B, T, heads, h): angle(pos, j) = pos * theta^(-2j/h), positions from 0."""
    T, h = x.shape[1], x.shape[3]
    j = torch.arange(h // 2, dtype=torch.float64)
    angle = torch.arange(T, dtype=torch.float64)[:, None] * theta ** (-2 * j / h)
    cos, sin = angle.cos().to(x)[None, :, None, :], angle.sin().to(x)[None, :, None, :]
    if layout == "half":  # pairs (j, j + h/2)
        a, b = x[..., : h // 2], x[..., h // 2 :]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
    a, b = x[..., 0::2], x[..., 1::2]  # pairs (2j, 2j + 1)
    return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)


def alibi_slopes(heads):
    """2^(-8j/H), j = 1..H. Other head counts: of the next power of two every second slope, from the
    second on, then the others, cut to H."""
    n = 1
    while n < heads:
        n *= 2
    slopes = [2 ** (-8 * j / n) for j in range(1, n + 1)]
    return slopes if n == heads else (slopes[1::2] + slopes[0::2])[:heads]


def attention_weights(scores, g, mode, eps):
    """softmax of scores (B, heads, T queries, T keys) over earlier keys, changed by gates g (B, T)."""
    T = scores.shape[-1]
    seen = torch.ones(T, T, dtype=torch.bool).tril()[None, None]
    if g is not None and mode in ("key", "hard"):  # weights proportional to g_j exp(score)
        scores = scores + torch.log(g.clamp(min=eps))[:, None, None, :]
    if g is not None and mode == "query_noop":  # as the released code: cancels in each row
        scores = scores + torch.log(g.clamp(min=eps))[:, None, :, None]
    if g is not None and mode == "hard":  # what has the least weight in key mode is dropped
        seen = seen & (g >= 1e-8)[:, None, None, :]
    scores = scores.masked_fill(~seen, float("-inf"))
    nothing = ~seen.any(-1, keepdim=True)  # hard: only where the query is skipped itself
    return torch.softmax(scores.masked_fill(nothing, 0.0), -1).masked_fill(~seen, 0.0)


class Model:
    def __init__(self, cfg, weights):
        self.cfg, self.w = cfg, weights
        self.margin = math.inf  # least distance from an edge of a ReLU or a clamp

    def linear(self, x, name):
        y = x @ self.w[name + ".weight"].T
        return y + self.w[name + ".bias"] if self.cfg.bias else y

    def normed(self, x, name):
        if self.cfg.norm == "rms":
            return rms_norm(x, self.w[name + ".weight"], self.cfg.eps)
        return layer_norm(x, self.w[name + ".weight"], self.w.get(name + ".bias"), self.cfg.eps)

    def qk_normed(self, x, name):
        """x (B, T, heads, h): RMSNorm over all heads together, or of each head with one gain."""
        if self.cfg.qk_norm == "none":
            return x
        gain = self.w[name + ".weight"]
        if self.cfg.qk_norm == "head":
            return rms_norm(x, gain, self.cfg.eps)
        return rms_norm(x.flatten(2), gain, self.cfg.eps).reshape(x.shape)

    def attention(self, x, i, g):
        cfg, at = self.cfg, f"model.layers.{i}.self_attn."
        B, T, n_q, n_kv = cfg.B, cfg.T, cfg.n_q[i], cfg.n_kv[i]
        q = self.linear(x, at + "q_proj").reshape(B, T, n_q, cfg.h)
        k = self.linear(x, at + "k_proj").reshape(B, T, n_kv, cfg.h)
        v = self.linear(x, at + "v_proj").reshape(B, T, n_kv, cfg.h)
        q, k = self.qk_normed(q, at + "q_norm"), self.qk_normed(k, at + "k_norm")
        if cfg.pos == "rope":
            q, k = rotate(q, cfg.theta, cfg.layout), rotate(k, cfg.theta, cfg.layout)
        group = [head * n_kv // n_q for head in range(n_q)]  # the key/value head of a query head
        k, v = k[:, :, group], v[:, :, group]
        scores = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(cfg.h)
        if cfg.pos == "alibi":
            t = torch.arange(T)
            slopes = torch.tensor(alibi_slopes(n_q)).to(scores)
            scores = scores - slopes[None, :, None, None] * (t[:, None] - t[None, :])
        p = attention_weights(scores, g, cfg.gate["attn"], cfg.gate["eps"])
        y = torch.einsum("bhts,bshd->bthd", p, v).reshape(B, T, n_q * cfg.h)
        return self.linear(y, at + "o_proj")

    def ffn(self, x, i):
        at = f"model.layers.{i}.mlp."
        up = self.linear(x, at + "up_proj")
        if self.cfg.act == "swiglu":
            gate = self.linear(x, at + "gate_proj")
            hidden = gate * torch.sigmoid(gate) * up
        else:
            hidden = gelu(up, self.cfg.act == "gelu_tanh")
        return self.linear(hidden, at + "down_proj")

    def block(self, x, i, g):
        """a = x + g N2(Attn(N1 x)); y = a + g N4(FFN(N3 a)), with the norms that there are."""
        names = [name and f"model.layers.{i}.{name}" for name in norm_names(self.cfg)]
        for sublayer, before, after in (
                (lambda z: self.attention(z, i, g), names[0], names[1]),
                (lambda z: self.ffn(z, i), names[2], names[3])):
            u = sublayer(self.normed(x, before) if before else x)
            u = self.normed(u, after) if after else u
            x = x + (u if g is None else g[..., None] * u)
        return x

    def open_gate(self, x, i, total):
        """S_i = S_{i-1} + relu(w x + b); g = 1 - clamp(S, 0, 1)."""
        at = f"model.layers.{i}.gate."
        pre = x @ self.w[at + "weight"] + self.w[at + "bias"]
        total = total + torch.relu(pre)  # relu'(0) = 0, clamp'(1) = 1
        g = 1 - total.clamp(0, 1)
        eps = self.cfg.gate["eps"]
        for distance in (pre, total - 1, 1 - total - eps):
            self.margin = min(self.margin, distance.abs().min().item())
        return total, g

    def forward(self, tokens):
        """Logits (B, T, V) and the gates of the layers (B, T each, None without)."""
        cfg = self.cfg
        x = self.w["model.embed_tokens.weight"][tokens]
        if cfg.pos == "learned":
            x = x + self.w["model.embed_positions.weight"]
        if cfg.input_norm:
            x = self.normed(x, "model.embed_norm")
        entered, gates, total = x, [None] * cfg.L, torch.zeros_like(x[..., 0])
        for loop in range(cfg.loops):
            if loop > 0 and cfg.block_inject == "add":
                x = x + entered
            for i in range(cfg.L):
                # a gate is evaluated once: where its layer is first entered
                if cfg.gated and loop == 0 and i < cfg.L // 2:
                    total, gates[i] = self.open_gate(x, i, total)
                    gates[cfg.L - 1 - i] = gates[i]
                first = x
                for k in range(cfg.r[i]):
                    if k > 0 and cfg.reuse_inject == "add":
                        x = x + first
                    x = self.block(x, i, gates[i])
        head = "model.embed_tokens.weight" if cfg.tied else "lm_head.weight"
        return self.normed(x, "model.norm") @ self.w[head].T, gates


def targets_of_gates(cfg):
    """mu_i = linspace(mu_start, mu_end, L/2) and its mirror; sigma_i = Bernoulli variance + delta."""
    half, g = cfg.L // 2, cfg.gate
    mu = torch.linspace(g["mu_start"], g["mu_end"], half, dtype=torch.float64).tolist()
    mu = mu + mu[::-1]
    return mu, [max(0.0, m * (1 - m) + g["var_delta"]) for m in mu]


def regulariser(cfg, gates):
    """Over all layers, mirrored ones included; variances are unbiased over the micro-batch."""
    mean = torch.stack([g.mean() for g in gates])
    var = torch.stack([g.flatten().var(unbiased=True) for g in gates])
    alpha = torch.tensor(cfg.gate["alpha"], dtype=mean.dtype)
    beta = torch.tensor(cfg.gate["beta"], dtype=mean.dtype)
    if cfg.gate["controller"] == "fixed_l2":
        mu, sigma = (torch.tensor(t, dtype=mean.dtype) for t in targets_of_gates(cfg))
        return alpha[0] * (mean - mu).norm() + beta[0] * (var - sigma).norm()
    total = (alpha * mean).sum() + (beta * var).sum()
    return total / cfg.L if cfg.gate["reduce"] == "mean" else total


# ---- one micro-batch -------------------------------------------------------------------------


def run(profile, weights, tokens, dtype=torch.float64, keep_gradients=True):
    cfg = Config(profile)
    w = {name: torch.from_numpy(x).to(dtype).requires_grad_() for name, x in weights.items()}
    ids = torch.tensor(tokens, dtype=torch.int64)
    model = Model(cfg, w)
    logits, gates = model.forward(ids[:-1].reshape(cfg.B, cfg.T))
    target = ids[1:].reshape(cfg.B, cfg.T, 1)
    loss = (torch.logsumexp(logits, -1, keepdim=True) - logits.gather(-1, target)).mean()
    total = loss + regulariser(cfg, gates) if cfg.gated else loss
    out = {"loss": loss, "loss_total": total, "logits": logits}
    if cfg.gated:
        half = gates[: cfg.L // 2]
        out["gate.mean"] = torch.stack([g.mean() for g in half])
        out["gate.var"] = torch.stack([g.flatten().var(unbiased=False) for g in half])
        out["gate.sparsity"] = torch.stack([(g.abs() < 1e-8).to(dtype).mean() for g in half])
    if keep_gradients:
        total.backward()
        for name, x in w.items():
            out["grad." + name] = torch.zeros_like(x) if x.grad is None else x.grad
    return {name: x.detach().numpy() for name, x in out.items()}, model.margin
