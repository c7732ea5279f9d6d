import { access, readFile } from 'node:fs/promises';
import { registerHooks } from 'node:module';
import type { KubeConfig } from '@kubernetes/client-node';
import { systemReason } from '../../lib/process/option-value.ts';

/** Imports of the library's kubeconfig reader for its API clients alone. */
const UNUSED: readonly string[] = ['./gen/index.js', 'undici'];
const READER = /\/@kubernetes\/client-node\/dist\/config\.js$/;

/**
 * The library's `KubeConfig`: reads kubeconfigs and obtains credentials. The module alone takes a
 * fifth of the time and memory of the package, which exports an API client for each kind of object.
 */
export async function kubeConfigClass(): Promise<typeof KubeConfig> {
  const hooks = registerHooks({
    resolve(specifier, context, next) {
      if (!UNUSED.includes(specifier) || !READER.test(context.parentURL ?? ''))
        return next(specifier, context);
      return next(new URL('unused-parts.ts', import.meta.url).href, context);
    },
  });
  try {
    // The package's main module is this one's, and all others.
    const reader = await import('@kubernetes/client-node/dist/config.js');
    return reader.KubeConfig;
  } finally {
    hooks.deregister();
  }
}

/** An empty one, of the same class: a second one of the library would take the memory again. */
export function emptyLike(kubeConfig: KubeConfig): KubeConfig {
  return new (kubeConfig.constructor as typeof KubeConfig)();
}

const TOKEN_FILE = '/var/run/secrets/kubernetes.io/serviceaccount/token';

/**
 * Loads the file's current context, or the pod's service account. Throws an Error that explains
 * what is wrong and what to do. The library is imported here because that takes a tenth of a
 * second, which commands without a cluster don't need.
 */
export async function loadKubeConfig(file: string | undefined): Promise<KubeConfig> {
  const KubeConfig = await kubeConfigClass();
  const kubeConfig = new KubeConfig();
  if (file === undefined) {
    try {
      await access(TOKEN_FILE);
    } catch (cause) {
      const message = `no cluster is known: neither --kubeconfig, KUBECONFIG nor ~/.kube/config names one, and this is no pod (there is no ${TOKEN_FILE})`;
      throw new Error(message, { cause });
    }
    kubeConfig.loadFromCluster();
    return kubeConfig;
  }
  try {
    // Read separately, so that an unreadable file is not reported as an invalid one.
    await readFile(file);
  } catch (cause) {
    throw new Error(`--kubeconfig: ${file}: can't be read: ${systemReason(cause)}`, { cause });
  }
  try {
    kubeConfig.loadFromFile(file);
  } catch (cause) {
    throw new Error(`--kubeconfig: ${file}: ${(cause as Error).message}`, { cause });
  }
  const context = kubeConfig.getCurrentContext();
  if (kubeConfig.getCurrentCluster() === null) {
    const named = JSON.stringify(context ?? '');
    throw new Error(`--kubeconfig: ${file}: current-context ${named} names no context with a cluster`);
  }
  return kubeConfig;
}
