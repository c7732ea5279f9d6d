import { registerHooks } from 'node:module';
import type { KubeConfig } from '@kubernetes/client-node';

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
