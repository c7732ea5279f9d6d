/** One controller, and what changes in a cluster: policies, nodes, pods, Services. */
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { type Story, startStory } from './story-bed.ts';
import { describePolicies } from './story-policies.ts';
import { describeServices } from './story-services.ts';

kernelSuite('a story of changes', function () {
  this.timeout(180_000);
  let story: Story;
  before(async function () {
    this.timeout(1_800_000);
    story = await startStory();
  });
  after(() => story?.close());

  describePolicies(() => story);
  describeServices(() => story);
});
