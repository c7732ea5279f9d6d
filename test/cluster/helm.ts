import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { KUBERNETES } from './build.ts';
import { cached } from './cache.ts';
import { output } from './command.ts';
import { findGo, goEnvironment } from './go.ts';

const SOURCE = join(import.meta.dirname, 'helm');
const PROGRAM = 'helm.sh/helm/v3/cmd/helm';

/**
 * Path of Helm's own program, from the cache or built: its Kubernetes modules are those of
 * test/cluster, whose build has compiled most of it.
 */
export async function buildHelm(): Promise<string> {
  const go = await findGo();
  const flags = buildFlags();
  const key = createHash('sha256').update(JSON.stringify([go.version, process.arch, flags]));
  for (const name of ['go.mod', 'go.sum']) key.update(await readFile(join(SOURCE, name)));
  const folder = await cached('helm', key.digest('hex').slice(0, 16), async (fresh) => {
    process.stderr.write('helm: building, once: a minute after Kubernetes was built\n');
    await output(['nice', '-n', '10', go.command, 'build', ...flags, '-o', join(fresh, 'helm'), PROGRAM], {
      cwd: SOURCE,
      env: goEnvironment({ CGO_ENABLED: '0' }),
    });
  });
  return join(folder, 'helm');
}

/** `helm template` and `helm lint` ask no cluster: they are told which Kubernetes it would be. */
function buildFlags(): string[] {
  const [major, minor] = KUBERNETES.split('.');
  const settings = ['pkg/chartutil', 'pkg/lint/rules'].flatMap((folder) =>
    Object.entries({ k8sVersionMajor: major, k8sVersionMinor: minor }).map(
      ([name, value]) => `-X helm.sh/helm/v3/${folder}.${name}=${value}`,
    ),
  );
  return ['-buildvcs=false', '-trimpath', '-ldflags', ['-s', '-w', ...settings].join(' ')];
}

if (import.meta.main) await buildHelm();
