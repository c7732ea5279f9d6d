import { type RealCluster, startRealCluster } from './cluster.ts';
import { clusterImages } from './cluster-images.ts';
import { buildPrograms } from './programs.ts';
import { imageTemplate } from './template.ts';

/**
 * Everything that the cluster is made of, from the cache or made: some 20 minutes of two cores on a
 * new machine.
 */
export async function buildBox(): Promise<Parameters<typeof startRealCluster>[0]> {
  const programs = await buildPrograms();
  return { programs, template: await imageTemplate(programs.debian, await clusterImages(programs)) };
}

/** A cluster with CoreDNS; nodewall is not installed. */
export async function startBox(progress: (what: string) => void = () => {}): Promise<RealCluster> {
  return startRealCluster({ ...(await buildBox()), progress });
}

if (import.meta.main) await buildBox();
