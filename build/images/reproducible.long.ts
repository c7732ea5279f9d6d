import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheFolder } from '../programs/cache.ts';
import { scratchFolder } from '../programs/folder.ts';
import { baseImages } from './base.ts';
import { buildBothImages, ownSource, TARGETS, unpackImage } from './build.ts';

describe('the images', () => {
  it('have the same layers when every step of deploy/Dockerfile is run twice', async function () {
    this.timeout(3_600_000);
    const base = await baseImages();
    const digests: string[][] = [];
    for (const run of ['first', 'second']) {
      const scratch = await scratchFolder('.reproducible-', { parent: cacheFolder() });
      try {
        const { buildah, names } = await buildBothImages(
          await ownSource(),
          base,
          join(scratch.path, 'build'),
          [base.storage],
        );
        const layers: string[] = [];
        for (const target of TARGETS) {
          const archive = join(scratch.path, `${target}.tar`);
          const folder = join(scratch.path, target);
          await mkdir(folder);
          await buildah.save(names[target], archive);
          const unpacked = await unpackImage(archive, folder);
          for (const { digest, size } of unpacked.layers) {
            layers.push(`${target} ${digest}`);
            process.stdout.write(
              `    ${run}: ${target} ${digest.slice(0, 19)} ${(size / 1e6).toFixed(1)} MB\n`,
            );
          }
        }
        digests.push(layers);
      } finally {
        await scratch.remove();
      }
    }
    assert.deepEqual(digests[0], digests[1]);
  });
});
