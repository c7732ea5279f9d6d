/**
 * Prints all kinds of flows of a node, read in pages of one kind: arguments are the kubeconfig and
 * the node.
 */
import { allFlows, type NodeFlows } from '../../../apis/node-flows.ts';
import { withCluster } from '../../../cli/cluster-api.ts';
import { askNode } from '../../../controller/kubeapi/ask-nodes.ts';

const [kubeconfig, node = ''] = process.argv.slice(2);
let pages = 0;
const all = await withCluster(kubeconfig, (request) =>
  allFlows((query) => {
    pages++;
    query.set('lines', '1');
    return askNode<NodeFlows>(request, node, 'flows', query);
  }),
);
process.stdout.write(JSON.stringify({ pages, all }));
