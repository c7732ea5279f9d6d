import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cached } from '../../build/programs/cache.ts';
import { output } from '../../build/programs/command.ts';
import { buildGoProgram, findGo, goEnvironment } from '../../build/programs/go.ts';

/** As in go.mod: the version that Kubernetes' programs say they are. */
const KUBERNETES = '1.35.4';
const SOURCES = ['go.mod', 'go.sum', 'main.go'] as const;

/**
 * Path of the program whose first argument is the one to be: etcd, kube-apiserver, kube-proxy or
 * kubectl. Built where the cache does not have it: about four minutes of two cores, once. What
 * happens is said on standard error.
 */
export async function buildCluster(): Promise<string> {
  const go = await findGo();
  const flags = buildFlags();
  const key = createHash('sha256').update(JSON.stringify([go.version, process.arch, flags]));
  for (const name of SOURCES) key.update(await readFile(join(import.meta.dirname, name)));
  const folder = await cached('cluster', key.digest('hex').slice(0, 16), async (fresh) => {
    process.stderr.write(
      `cluster: building Kubernetes ${KUBERNETES} with ${go.version}, once: some minutes\n`,
    );
    const started = performance.now();
    await output(['nice', '-n', '10', go.command, 'build', ...flags, '-o', join(fresh, 'cluster'), '.'], {
      cwd: import.meta.dirname,
      env: goEnvironment({ CGO_ENABLED: '0' }),
    });
    process.stderr.write(`cluster: built in ${((performance.now() - started) / 1000).toFixed(0)} s\n`);
  });
  return join(folder, 'cluster');
}

function buildFlags(): string[] {
  const [major, minor] = KUBERNETES.split('.');
  const values = { gitVersion: `v${KUBERNETES}`, gitMajor: major, gitMinor: minor };
  const settings = Object.entries(values).map(
    ([name, value]) => `-X k8s.io/component-base/version.${name}=${value}`,
  );
  return ['-buildvcs=false', '-trimpath', '-ldflags', ['-s', '-w', ...settings].join(' ')];
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
  const [major, minor] = KUBERNETES.split('.');
  return ['pkg/chartutil', 'pkg/lint/rules'].flatMap((folder) =>
    Object.entries({ k8sVersionMajor: major, k8sVersionMinor: minor }).map(
      ([name, value]) => `-X helm.sh/helm/v3/${folder}.${name}=${value}`,
    ),
  );
}

if (import.meta.main) await buildHelm();
