/**
 * One API server: the tests' own use of it, and what of nodewall it takes, keeps and asks. Each
 * file removes what would be in the way of the next one; the last one has controllers.
 */
import './api-server/test-cluster.test.ts';
import './api-server/proxies.test.ts';
import './api-server/watch.test.ts';
import './api-server/crds.test.ts';
import './api-server/webhook.test.ts';
import './api-server/deploy.test.ts';
import './api-server/gate.test.ts';
import './api-server/deletions.test.ts';
