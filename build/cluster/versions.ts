/** The versions that clusters can be made of, and the choice of them. */

/** Releases of k8s.io/kubernetes that are built, by what is asked for. */
const KUBERNETES = { '1.34': '1.34.4', '1.35': '1.35.4', '1.36': '1.36.3', '1.37': '1.37.2' } as const;
/** The same of containerd; 1.6 is Debian 12's package. */
const CONTAINERD = { '1.6': 'debian', '1.7': '1.7.35', '2': '2.4.2' } as const;

/** The version of test/cluster/go.mod. */
const DEFAULT_KUBERNETES: KubernetesName = '1.37';
const DEFAULT_CONTAINERD: ContainerdName = '1.6';

type KubernetesName = keyof typeof KUBERNETES;
type ContainerdName = keyof typeof CONTAINERD;

/** `NODEWALL_KUBERNETES` may be one of these, oldest first. */
export const KUBERNETES_NAMES = namesOf(KUBERNETES);
/** `NODEWALL_CONTAINERD` may be one of these, oldest first. */
export const CONTAINERD_NAMES = namesOf(CONTAINERD);

/** A version that was chosen. */
interface Chosen {
  /** As it is asked for: 1.36. */
  readonly name: string;
  /** As the Go module has it: 1.36.3. */
  readonly release: string;
  readonly isDefault: boolean;
}

/**
 * Kubernetes of all clusters of this process: NODEWALL_KUBERNETES, or the default. Throws where it
 * is not known.
 */
export function chosenKubernetes(environment: NodeJS.ProcessEnv = process.env): Chosen {
  return chosen('NODEWALL_KUBERNETES', KUBERNETES, DEFAULT_KUBERNETES, environment);
}

/** The same of containerd and NODEWALL_CONTAINERD; `release` is null where Debian's is meant. */
export function chosenContainerd(
  environment: NodeJS.ProcessEnv = process.env,
): Omit<Chosen, 'release'> & { readonly release: string | null } {
  const found = chosen('NODEWALL_CONTAINERD', CONTAINERD, DEFAULT_CONTAINERD, environment);
  return { ...found, release: found.release === 'debian' ? null : found.release };
}

function chosen<Name extends string>(
  variable: string,
  releases: Readonly<Record<Name, string>>,
  usual: Name,
  environment: NodeJS.ProcessEnv,
): Chosen {
  const wanted = environment[variable] || usual;
  const name = namesOf(releases).find((one) => one === wanted);
  if (name === undefined) {
    const known = namesOf(releases).join(', ');
    throw new Error(`${variable}=${wanted}: not known here; known are ${known} (build/cluster/versions.ts)`);
  }
  return { name, release: releases[name], isDefault: name === usual };
}

function namesOf<Name extends string>(releases: Readonly<Record<Name, string>>): Name[] {
  const names: Name[] = [];
  for (const name in releases) names.push(name);
  return names.sort((a, b) => Number(a.split('.')[0]) - Number(b.split('.')[0]) || (a < b ? -1 : 1));
}
