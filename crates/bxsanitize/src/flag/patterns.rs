//! The word patterns of `flag`. Data only.
//!
//! # Source
//! Attack phrases in published prompt-injection and memory-poisoning reports, reduced to the words
//! that carry them.

use super::Flag;
use Flag::{
    AddressedToModel, AuthorityFrame, DelayedTrigger, Exfiltration, FakeBoundary, MemoryWrite,
    Override, PersonaSwitch, Precondition, RevealPrompt, Secrecy, ToolOrder,
};

/// Steps of one pattern: how many other words may stand before, and the words that do.
type Row = &'static [(usize, &'static str)];

const MODEL: &str = "ai assistant assistants agent agents model models llm llms chatbot chatgpt claude gemini copilot";
const RULES: &str = "instruction instructions prompt prompts rules guidelines directives directions commands programming";
const TOOLS: &str = "tool tools function api shell terminal bash";
const LOOT: &str = "password passwords passphrase credentials secrets key keys token tokens conversation transcript";
const SEND: &str = "send forward upload post transmit exfiltrate leak email mail submit append";

#[rustfmt::skip]
pub(super) static PATTERNS: &[(Flag, Row)] = &[
    (Override, &[(0, "ignore disregard forget override bypass discard neglect"), (3, "previous prior above earlier preceding existing original all any your"), (3, RULES)]),
    (Override, &[(0, "ignore disregard forget"), (2, "everything anything all"), (3, "above before previously said told")]),
    (Override, &[(0, "ignore disregard override bypass"), (4, "safety security"), (2, "rules guidelines policy policies checks instructions filters")]),
    (Override, &[(0, "do"), (0, "not"), (0, "follow obey"), (3, "previous prior above earlier original system"), (2, RULES)]),
    (Override, &[(0, "instructions prompt rules"), (2, "are is"), (3, "superseded replaced void cancelled revoked obsolete"), (3, "by now follow")]),
    (FakeBoundary, &[(0, "end"), (1, "of"), (1, "document context conversation prompt input data transcript"), (6, "new instructions system begin start now")]),
    (FakeBoundary, &[(0, "new updated revised additional"), (1, "system"), (1, "instructions instruction prompt rules")]),
    (FakeBoundary, &[(0, "begin start"), (1, "new real actual"), (1, "instructions task session")]),
    (FakeBoundary, &[(0, "your"), (0, "new real actual true"), (1, "task instructions goal objective"), (1, "is are")]),
    (AddressedToModel, &[(0, "dear attention hey hello hi"), (1, "ai assistant llm chatbot chatgpt claude gemini copilot model")]),
    (AddressedToModel, &[(0, "note message notice instruction instructions information"), (0, "to for"), (2, "ai assistant assistants llm llms chatbot chatgpt claude gemini copilot model models"), (2, "reading processing summarizing summarising this that only who whoever")]),
    (AddressedToModel, &[(0, "note"), (0, "to"), (1, "the"), (1, "ai assistant model llm agent")]),
    (AddressedToModel, &[(0, "if"), (0, "you"), (1, "are you're"), (2, MODEL), (4, "reading processing summarizing summarising must should")]),
    (AddressedToModel, &[(0, "as"), (1, "ai"), (1, "model assistant agent"), (2, "you"), (1, "must should shall will need")]),
    (AddressedToModel, &[(0, "assistant ai llm chatbot"), (1, "must should"), (2, "always immediately now never"), (3, "include call run execute respond reply say recommend answer")]),
    (AuthorityFrame, &[(0, "important urgent critical official"), (0, "message notice instruction instructions"), (0, "from"), (4, "system administrator admin developer developers operator anthropic openai google owner user security")]),
    (AuthorityFrame, &[(0, "system administrator admin developer root"), (0, "override mode"), (2, "enabled activated active engaged on")]),
    (AuthorityFrame, &[(0, "i"), (1, "am i'm"), (3, "developer administrator admin operator creator"), (4, "you"), (1, "must should obey")]),
    (AuthorityFrame, &[(0, "you"), (0, "are have"), (1, "authorized authorised permission permitted"), (1, "to"), (3, "bypass ignore reveal execute disclose")]),
    (Precondition, &[(0, "before"), (0, "you"), (1, "answer answering respond responding reply continue proceed do"), (6, "first must always you"), (4, "read call run send use open fetch check execute include visit save store")]),
    (Precondition, &[(0, "before"), (0, "answering responding replying using"), (6, "first must always"), (3, "read call run send use open fetch execute include visit save store")]),
    (Precondition, &[(0, "in"), (0, "order"), (0, "to"), (2, "use answer respond"), (5, "you"), (1, "must"), (1, "first"), (2, "read call run send open fetch")]),
    (MemoryWrite, &[(0, "remember memorize memorise save store record"), (8, "for in to across"), (2, "all future your every later"), (2, "sessions conversations chats memory memories interactions answers")]),
    (MemoryWrite, &[(0, "add save store write put commit"), (6, "to in into"), (2, "your long persistent permanent"), (2, "memory memories")]),
    (MemoryWrite, &[(0, "update"), (0, "your"), (1, "memory memories"), (3, "with to so that")]),
    (MemoryWrite, &[(0, "from"), (0, "now"), (0, "on"), (3, "always never you"), (4, "answer respond reply recommend say include use call treat mention must prefer send")]),
    (MemoryWrite, &[(0, "in"), (0, "all every"), (1, "future subsequent later"), (1, "sessions conversations chats responses replies answers interactions"), (3, "you always never include recommend mention say")]),
    (MemoryWrite, &[(0, "remember"), (6, "as"), (1, "a"), (1, "trusted reliable authoritative preferred"), (2, "source sources provider site vendor")]),
    (MemoryWrite, &[(0, "always"), (1, "remember recommend cite prefer"), (6, "as"), (1, "trusted reliable authoritative best"), (2, "source sources")]),
    (DelayedTrigger, &[(0, "when if once whenever"), (1, "user owner human"), (2, "says asks replies writes types mentions confirms answers responds"), (10, "then immediately you"), (3, "call run execute send save use invoke delete open store forward")]),
    (DelayedTrigger, &[(0, "next"), (0, "time"), (2, "user owner you"), (6, "call run execute send invoke"), (3, "tool function command script")]),
    (DelayedTrigger, &[(0, "wait"), (0, "until for"), (2, "user owner"), (4, "says asks replies confirms yes"), (6, "call run execute send invoke then")]),
    (Exfiltration, &[(0, SEND), (4, LOOT), (6, "to"), (2, "http https url endpoint server webhook address attacker following this me email")]),
    (Exfiltration, &[(0, "send forward transmit exfiltrate leak upload"), (2, "user's users user owner's owner your entire full"), (3, LOOT), (5, "to")]),
    (Exfiltration, &[(0, "include append encode embed insert"), (4, LOOT), (5, "in into to as"), (3, "url link image query parameter markdown")]),
    (ToolOrder, &[(0, "must now immediately please"), (2, "call invoke use execute run"), (1, "the this"), (3, TOOLS), (2, "to with and")]),
    (ToolOrder, &[(0, "invoke call"), (1, "the"), (2, "tool function"), (2, "without"), (2, "confirmation asking telling permission approval")]),
    (ToolOrder, &[(0, "without"), (0, "asking"), (1, "the"), (1, "user owner"), (3, "call run execute send delete invoke")]),
    (ToolOrder, &[(0, "execute run"), (2, "following this"), (2, "command code script"), (2, "immediately now silently without")]),
    (RevealPrompt, &[(0, "reveal print output repeat show disclose display leak recite dump"), (3, "your the"), (2, "system initial hidden original full developer"), (1, "prompt instructions message")]),
    (RevealPrompt, &[(0, "what"), (1, "is are was were"), (0, "your"), (1, "system initial hidden original"), (1, "prompt instructions message")]),
    (RevealPrompt, &[(0, "repeat print output"), (2, "everything text words all"), (2, "above before"), (4, "verbatim prompt exactly instructions starting")]),
    (PersonaSwitch, &[(0, "you"), (0, "are"), (0, "now"), (2, "dan unrestricted unfiltered jailbroken evil developer free"), ]),
    (PersonaSwitch, &[(0, "you"), (0, "are"), (0, "no"), (0, "longer"), (3, "ai assistant model claude chatgpt bound restricted")]),
    (PersonaSwitch, &[(0, "pretend act roleplay behave"), (3, "you as like"), (4, "no unrestricted unfiltered without"), (2, "restrictions limits rules filter filters guidelines limitations ai assistant")]),
    (PersonaSwitch, &[(0, "jailbreak dan developer god"), (0, "mode"), (2, "enabled on activated active")]),
    (PersonaSwitch, &[(0, "do"), (0, "anything"), (0, "now"), (4, "mode ai you dan")]),
    (Secrecy, &[(0, "do"), (0, "not"), (1, "tell inform mention reveal notify alert disclose show"), (4, "user owner human operator")]),
    (Secrecy, &[(0, "don't don’t never"), (0, "tell inform mention reveal notify alert"), (3, "user owner human operator")]),
    (Secrecy, &[(0, "without"), (0, "telling informing notifying alerting mentioning"), (3, "user owner human operator")]),
    (Secrecy, &[(0, "keep hide conceal"), (3, "secret hidden from"), (1, "from the"), (1, "user owner human operator")]),
];
