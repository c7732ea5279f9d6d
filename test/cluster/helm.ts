import { join } from 'node:path';
import { buildGoProgram } from '../../build/programs/go.ts';
import { KUBERNETES } from './build.ts';

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
  const [major, minor] = KUBERNETES.split('.');
  return ['pkg/chartutil', 'pkg/lint/rules'].flatMap((folder) =>
    Object.entries({ k8sVersionMajor: major, k8sVersionMinor: minor }).map(
      ([name, value]) => `-X helm.sh/helm/v3/${folder}.${name}=${value}`,
    ),
  );
}

if (import.meta.main) await buildHelm();
