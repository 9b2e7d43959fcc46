# Writes OUTPUT, a source file whose text is the page: page.html of FOLDER with
# page.css and the scripts in their places. -DFOLDER=... -DOUTPUT=...
file(READ ${FOLDER}/page.html page)
file(READ ${FOLDER}/page.css style)
set(script "'use strict';\n(() => {\n")
foreach(name data format picture cost timeline sequence pattern memory tables main)
  file(READ ${FOLDER}/${name}.js text)
  string(APPEND script "${text}")
endforeach()
string(APPEND script "})();\n")
string(REPLACE "{{style}}" "${style}" page "${page}")
string(REPLACE "{{script}}" "${script}" page "${page}")
# Compilers bound the length of one literal.
set(pieces "")
while(NOT page STREQUAL "")
  string(LENGTH "${page}" length)
  if(length GREATER 8000)
    set(length 8000)
  endif()
  string(SUBSTRING "${page}" 0 ${length} piece)
  string(SUBSTRING "${page}" ${length} -1 page)
  string(APPEND pieces "    R\"page(${piece})page\"\n")
endwhile()
file(WRITE ${OUTPUT}
"// Made from tools/explain/page/web by embed.cmake.
#include <string_view>
namespace heddle::explain {
extern const std::string_view pageTemplate;
const std::string_view pageTemplate =
${pieces}    ;
} // namespace heddle::explain
")
