/**
 * One controller, and what changes in a cluster: policies, nodes, pods, Services; then the
 * controller is gone.
 */
import './story-changes/policies.test.ts';
import './story-changes/services.test.ts';
import './story-changes/no-controller.test.ts';
