/** The chart one version before this one, from git, and its images. */
import { join } from 'node:path';
import { buildImages, type Images } from '../../build/images/build.ts';
import { cached } from '../../build/programs/cache.ts';
import { missingCommit, unpackCommit } from '../skew/commit.ts';

/**
 * Nothing has been released yet. This is the first commit with a chart: before the hook of
 * uninstall, the ValidatingAdmissionPolicies, gates that are turned off node by node, and metrics
 * through the controllers. Replaced by the tag of each release.
 */
const PREVIOUS = 'afe5c5bbdb55f6b8d67a7c3c4acae7fb7a8a6c5e';

export interface PreviousChart {
  /** Folder of the chart. */
  readonly chart: string;
  /** Tag of its images. */
  readonly tag: string;
  readonly images: Images;
}

/** From the cache, or made: its images take a minute or two. */
export async function previousChart(): Promise<PreviousChart> {
  const missing = await missingCommit(PREVIOUS);
  if (missing !== null) throw new Error(missing);
  const tag = `previous-${PREVIOUS.slice(0, 8)}`;
  const root = await cached('previouschart', PREVIOUS.slice(0, 16), (folder) =>
    unpackCommit(PREVIOUS, folder),
  );
  return { chart: join(root, 'deploy/chart'), tag, images: await buildImages({ root, tag }) };
}
