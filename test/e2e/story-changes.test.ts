/**
 * One controller, and what changes in a cluster: policies, nodes, pods, Services; then the
 * controller is gone.
 */
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { type Story, startStory } from './story-bed.ts';
import { describeNoController } from './story-no-controller.ts';
import { describePolicies } from './story-policies.ts';
import { describeServices } from './story-services.ts';

kernelSuite('a story of changes', function () {
  this.timeout(180_000);
  let story: Story;
  before(async function () {
    this.timeout(1_800_000);
    story = await startStory({ asksApiServer: true });
  });
  after(() => story?.close());

  describePolicies(() => story);
  describeServices(() => story);
  // It ends the first controller.
  describeNoController(() => story);
});
