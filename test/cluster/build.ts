import { join } from 'node:path';
import { chosenKubernetes } from '../../build/cluster/versions.ts';
import { buildGoModule, buildGoProgram } from '../../build/programs/go.ts';

const FILES = ['main.go'] as const;
const TAKES = 'ten minutes of two cores';

/**
 * Path of the program whose first argument is the one to be: etcd, kube-apiserver, kube-proxy or
 * kubectl. Built where the cache does not have it; what happens is said on standard error. The
 * default version has its go.mod and go.sum here, of others they follow from Kubernetes' own.
 */
export async function buildCluster(): Promise<string> {
  const { release, isDefault } = chosenKubernetes();
  const [major, minor] = release.split('.');
  const values = { gitVersion: `v${release}`, gitMajor: major, gitMinor: minor };
  const linked = Object.entries(values).map(
    ([name, value]) => `-X k8s.io/component-base/version.${name}=${value}`,
  );
  const common = { name: 'cluster', linked, takes: `Kubernetes ${release}, ${TAKES}` };
  if (isDefault) return buildGoProgram({ ...common, source: import.meta.dirname, files: FILES });
  const folder = await buildGoModule({
    ...common,
    module: 'k8s.io/kubernetes',
    version: `v${release}`,
    files: FILES.map((file) => join(import.meta.dirname, file)),
    programs: ['.'],
  });
  return join(folder, 'programs');
}

if (import.meta.main) await buildCluster();

/**
 * Path of Helm's own program, from the cache or built: its Kubernetes modules are those of
 * test/cluster, whose build has compiled most of it.
 */
export function buildHelm(): Promise<string> {
  return buildGoProgram({
    name: 'helm',
    source: join(import.meta.dirname, 'helm'),
    program: 'helm.sh/helm/v3/cmd/helm',
    linked: kubernetesVersion(),
    takes: 'a minute after Kubernetes was built',
  });
}

/** `helm template` and `helm lint` ask no cluster: they are told which Kubernetes it would be. */
function kubernetesVersion(): string[] {
  const [major, minor] = chosenKubernetes().release.split('.');
  return ['pkg/chartutil', 'pkg/lint/rules'].flatMap((folder) =>
    Object.entries({ k8sVersionMajor: major, k8sVersionMinor: minor }).map(
      ([name, value]) => `-X helm.sh/helm/v3/${folder}.${name}=${value}`,
    ),
  );
}

if (import.meta.main) await buildHelm();
