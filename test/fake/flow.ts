import { type Config, DEFAULT_CONFIG } from '../../apis/config.ts';
import type { Flow } from '../../apis/flow.ts';

/** Without a failsafe list, so that rules alone decide. */
export const OPEN: Config = { ...DEFAULT_CONFIG, failsafe: { ingress: [], egress: [] } };

/** From outside to a web server on the node. */
export const FLOW: Flow = {
  direction: 'ingress',
  src: '198.51.100.7',
  dst: '192.0.2.1',
  protocol: 'tcp',
  srcPort: 40000,
  dstPort: 80,
};
