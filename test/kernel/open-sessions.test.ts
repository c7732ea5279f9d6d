/** Of each kind of session one, in each case. */
import { openSessionsSuite } from './session-suite.ts';

openSessionsSuite(0);
