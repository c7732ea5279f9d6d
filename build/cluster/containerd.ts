/** containerd of the chosen version: its programs, and its configuration. */

import { join } from 'node:path';
import { buildGoModule } from '../programs/go.ts';
import { CNI_PLUGINS, PAUSE_IMAGE } from './configuration.ts';
import { chosenContainerd } from './versions.ts';

const PROGRAMS = ['containerd', 'ctr', 'containerd-shim-runc-v2'] as const;

/**
 * Folder with containerd, ctr and the shim, from the cache or built; Debian's own are in `debian`,
 * the root of unpacked packages.
 */
export async function containerdPrograms(debian: string): Promise<string> {
  const { release } = chosenContainerd();
  if (release === null) return join(debian, 'usr/bin');
  const module = `github.com/containerd/containerd${release.startsWith('1.') ? '' : '/v2'}`;
  return buildGoModule({
    name: 'containerd',
    module,
    version: `v${release}`,
    linked: [`-X ${module}/version.Version=${release}`],
    programs: PROGRAMS.map((name) => `${module}/cmd/${name}`),
    takes: `${release}, two minutes of two cores`,
  });
}

interface ContainerdParts {
  readonly root: string;
  readonly state: string;
  /** Folder of the node's files. */
  readonly data: string;
  /** Path of runc. */
  readonly runc: string;
}

/** config.toml: version 2 of its format is that of containerd 1.x, 3 that of 2.x. */
export function containerdConfiguration(parts: ContainerdParts, { name } = chosenContainerd()): string {
  const { root, state, data, runc } = parts;
  const { version, runtime, pause, plugins } = name.startsWith('1.') ? FIRST : SECOND;
  return `version = ${version}
root = "${root}"
state = "${state}"
oom_score = 0
[grpc]
  address = "${state}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "${data}/containerd-opt"
${pause}
[plugins."${runtime}".containerd]
  default_runtime_name = "runc"
  [plugins."${runtime}".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."${runtime}".containerd.runtimes.runc.options]
      BinaryName = "${runc}"
      SystemdCgroup = false
[plugins."${runtime}".cni]
  ${plugins}
  conf_dir = "${data}/cni"
`;
}

/** Containers of system priority get scores below 0, which needs CAP_SYS_RESOURCE. */
const OF_RUNTIME = `  disable_apparmor = true
  restrict_oom_score_adj = true`;

const FIRST = {
  version: 2,
  runtime: 'io.containerd.grpc.v1.cri',
  pause: `[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${PAUSE_IMAGE}"
${OF_RUNTIME}`,
  plugins: `bin_dir = "${CNI_PLUGINS}"`,
};

const SECOND = {
  version: 3,
  runtime: 'io.containerd.cri.v1.runtime',
  pause: `[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "${PAUSE_IMAGE}"
[plugins."io.containerd.cri.v1.runtime"]
${OF_RUNTIME}`,
  plugins: `bin_dirs = ["${CNI_PLUGINS}"]`,
};
