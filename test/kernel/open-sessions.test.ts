/** One session of each kind, in each case. */
import { openSessionsSuite } from './open-sessions.ts';

openSessionsSuite(0);
