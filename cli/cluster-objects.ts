import type { Config } from '../apis/config.ts';
import type { ClusterObjects } from '../apis/objects.ts';
import { validateOptions } from '../apis/validate/object.ts';
import { CommandError, EXIT } from '../lib/process/exit.ts';
import { clusterConfig } from './kube-config.ts';

/**
 * The objects of a cluster as its controller reads them. Throws a CommandError if a resource cannot
 * be listed.
 *
 * @param egress whether egress gateways are read
 */
export async function clusterObjects(
  file: string | undefined,
  config: Config,
  egress = true,
): Promise<ClusterObjects> {
  const kubeConfig = await clusterConfig(file);
  const { clusterSource } = await import('../controller/watch/cluster/cluster-source.ts');
  const first = Promise.withResolvers<ClusterObjects>();
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
    await source.start(({ objects }) => first.resolve(objects));
    return await first.promise;
  } finally {
    await source.close();
  }
}
