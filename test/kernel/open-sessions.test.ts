/** One session of each kind, in each case. */
import { openSessionsSuite } from './session-suite.ts';

openSessionsSuite(0);
