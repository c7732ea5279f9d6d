/** Two controllers, and what fails: probes of a change, the controllers, the API server, etcd, tokens. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { type Story, startStory } from './story-bed.ts';
import { describeGuard, GUARDED } from './story-guard.ts';
import { describeOutages } from './story-outages.ts';

kernelSuite('a story of failures', function () {
  this.timeout(180_000);
  let story: Story;
  let folder: string;
  const config = (): string => join(folder, 'config.yaml');
  before(async function () {
    this.timeout(1_800_000);
    folder = await mkdtemp(join(tmpdir(), 'nodewall-story-'));
    await writeFile(config(), GUARDED);
    story = await startStory({ replicas: 2, controllerOptions: ['--config', config()] });
  });
  after(async () => {
    await story?.close();
    await rm(folder, { recursive: true, force: true });
  });

  describeGuard(() => story, config);
  describeOutages(() => story);
});
