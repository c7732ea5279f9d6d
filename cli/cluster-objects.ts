import type { Config } from '../apis/config.ts';
import type { ClusterObjects } from '../apis/objects.ts';
import { validateOptions } from '../apis/validate/object.ts';
import type { Snapshot } from '../controller/watch/source.ts';
import { CommandError, EXIT } from '../lib/process/exit.ts';
import { clusterConfig } from './kube-config.ts';

/** The objects in force in a cluster: see clusterSnapshot. */
export async function clusterObjects(
  file: string | undefined,
  config: Config,
  egress = true,
): Promise<ClusterObjects> {
  return (await clusterSnapshot(file, config, egress)).objects;
}

/**
 * A cluster as its controller reads it. Throws a CommandError if a resource cannot be listed.
 *
 * @param egress whether egress gateways are read
 */
export async function clusterSnapshot(
  file: string | undefined,
  config: Config,
  egress = true,
): Promise<Snapshot> {
  const kubeConfig = await clusterConfig(file);
  const { clusterSource } = await import('../controller/watch/cluster/cluster-source.ts');
  const first = Promise.withResolvers<Snapshot>();
  const source = clusterSource({
    kubeConfig,
    ...validateOptions(config),
    egress,
    quiet: 0,
    onNotice(notice) {
      if (notice.event !== 'failed') return;
      first.reject(new CommandError(EXIT.refused, `cannot read ${notice.resource}: ${notice.error}`));
    },
  });
  try {
    await source.start(first.resolve);
    return await first.promise;
  } finally {
    await source.close();
  }
}
